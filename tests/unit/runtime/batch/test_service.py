"""Rows through a service, a real HTTP server on loopback: temporarily rejected rows are sent again."""

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from daybreak_runtime.batch import service as module
from daybreak_runtime.batch.order import Request, Service
from daybreak_runtime.batch.output import Answer
from daybreak_runtime.batch.rows.reading import Row
from daybreak_runtime.batch.rows.staging import stage
from daybreak_runtime.batch.service import answers
from daybreak_runtime.jobs.problem import JobProblem


class Played:
    """Fake service: asleep for the first requests, and without an answer for some."""

    def __init__(self) -> None:
        self.requested: Counter[str] = Counter()
        self.at_once = self.most = 0
        self.refuse_all = 0
        self.retry_after = "0"
        """Value of `Retry-After` for temporarily rejected requests."""
        self.unknown_for = 0
        """Number of requests that receive an unknown-model error."""
        self.lock = threading.Lock()

    def reply(self, prompt: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Return status, body and headers for a prompt."""
        self.requested[prompt] += 1
        if self.refuse_all:
            return self.refuse_all, {"error": {"message": "no key"}}, {}
        if self.unknown_for:
            self.unknown_for -= 1
            return 404, {"error": {"message": "The model tiny does not exist."}}, {}
        if prompt.startswith("bad"):
            return 400, {"error": {"message": "too long"}}, {}
        if prompt.startswith("asleep") and self.requested[prompt] < 3:
            return 503, {"error": {"message": "waking"}}, {"Retry-After": self.retry_after}
        usage = {"prompt_tokens": 1, "completion_tokens": 2}
        return 200, {"choices": [{"text": f"re {prompt}", "finish_reason": "stop"}], "usage": usage}, {}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Played, Service]]:
    play = Played()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with play.lock:
                play.at_once += 1
                play.most = max(play.most, play.at_once)
            status, message, headers = play.reply(body["prompt"])
            content = json.dumps(message).encode()
            with play.lock:
                play.at_once -= 1
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # a client that has given up has left
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    monkeypatch.setattr(module, "PAUSE_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(module, "NOT_THERE_SECONDS", 1.0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield play, Service(f"http://127.0.0.1:{server.server_address[1]}", "tiny", concurrency=8)
    server.shutdown()
    server.server_close()


def send_request(service: Service, prompts: list[str], folder: Path) -> dict[int, Answer]:
    staged = stage([Row(n, {"q": prompt}) for n, prompt in enumerate(prompts)], (), folder, 4)
    request = Request(prompt="{{ q }}", use_chat_template=False)
    found = [each for batch in answers(service, request, staged.blocks) for each in batch]
    assert len(found) == len(prompts)
    return {each.row: each for each in found}


def test_every_row_is_answered_once(played: tuple[Played, Service], tmp_path: Path) -> None:
    play, service = played
    found = send_request(service, [f"p{n}" for n in range(50)], tmp_path)
    assert all(found[n].answer["response"] == f"re p{n}" for n in range(50))
    assert set(play.requested.values()) == {1}
    assert play.most <= 8


def test_temporarily_rejected_row_is_sent_again(played: tuple[Played, Service], tmp_path: Path) -> None:
    play, service = played
    found = send_request(service, ["asleep 1", "fine"], tmp_path)
    assert [found[n].error for n in range(2)] == ["", ""]
    assert play.requested == {"asleep 1": 3, "fine": 1}


@pytest.mark.parametrize(("message", "least"), [("7", 7.0), ("120", 120.0), ("0", 0.01), ("soon", 0.01)])
def test_client_waits_for_retry_after_before_next_attempt(
    played: tuple[Played, Service],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    message: str,
    least: float,
) -> None:
    """No second of it goes by: what would be slept is noted. Without a time it is the client's own pause."""
    play, service = played
    play.retry_after = message
    slept: list[float] = []
    asleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asleep(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert send_request(service, ["asleep 1"], tmp_path)[0].error == ""
    assert len(slept) == play.requested["asleep 1"] - 1 == 2
    # Spread by up to 30 %; the client's own pause is doubled once.
    assert all(least <= each <= 2 * 1.3 * least for each in slept)


def test_permanently_rejected_row_has_an_error(played: tuple[Played, Service], tmp_path: Path) -> None:
    play, service = played
    found = send_request(service, ["bad", "fine"], tmp_path)
    assert found[0].error == "HTTP 400: too long"
    assert (found[1].error, play.requested["bad"]) == ("", 1)


def test_a_missing_key_ends_the_batch(played: tuple[Played, Service], tmp_path: Path) -> None:
    play, service = played
    play.refuse_all = 401
    with pytest.raises(JobProblem, match="no key") as found:
        send_request(service, ["a", "b"], tmp_path)
    assert found.value.reason == "ServiceRejected"


def test_temporarily_unknown_model_fails_no_row(
    played: tuple[Played, Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than the pauses between the attempts, also on a busy machine.
    monkeypatch.setattr(module, "NOT_THERE_SECONDS", 60.0)
    play, service = played
    play.unknown_for = 5
    found = send_request(service, ["a", "b"], tmp_path)
    assert [found[n].error for n in range(2)] == ["", ""]


def test_permanently_unknown_model_ends_the_batch(played: tuple[Played, Service], tmp_path: Path) -> None:
    play, service = played
    play.unknown_for = 1_000_000
    with pytest.raises(JobProblem, match="The model tiny does not exist") as found:
        send_request(service, ["a", "b"], tmp_path)
    assert found.value.reason == "ServiceRejected"
