"""OpenAI's batch files through a service with the gateway's list of fields, and back as OpenAI's types."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from openai.types import Completion, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion

from daybreak_runtime.batch import __main__ as program
from daybreak_runtime.batch.order import Order, Request, Service
from daybreak_runtime.batch.progress import Progress
from daybreak_runtime.batch.rows.row_error import RowError
from daybreak_runtime.batch.service import ask
from daybreak_runtime.http.fields import refused

CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
SERVICE = Service("http://tiny/v1", "tiny")
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}}
OTHER = {"type": "object", "properties": {"grade": {"type": "integer"}}}
SAME = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
NESTED = b"[" * 5000
"""JSON that Python's parser gives up on."""
MESSAGES = [{"role": "user", "content": "a"}]
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def send_request(url: str, number: int = 0, **body: Any) -> dict[str, Any]:
    """Return a request of a batch file."""
    return {"custom_id": f"c{number}", "method": "POST", "url": url, "body": {"model": "tiny", **body}}


def answered(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that vLLM answers with."""
    if path == EMBED:
        data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"id": "e", "object": "list", "created": 1, "model": "tiny", "data": data, "usage": usage}
    common = {"id": "x", "created": 1, "model": "tiny", "usage": USAGE}
    rest = {"logprobs": None, "finish_reason": "stop"}
    if path == TEXT:
        return {**common, "object": "text_completion", "choices": [{"index": 0, "text": "b", **rest}]}
    message: dict[str, Any] = {"role": "assistant", "content": "b"}
    if body.get("tools"):
        call = {"id": "t", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choices = [{"index": n, "message": message, **rest} for n in range(body.get("n", 1))]
    return {**common, "object": "chat.completion", "choices": choices}


class Gate:
    """A service after a gateway: fields that the gateway does not know receive 400."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.instead: dict[str, Any] = {}
        """Raw answers instead of good ones, by a text of the request."""

    def reply(self, path: str, content: bytes) -> tuple[int, Any]:
        """Return a status and a body."""
        wrong = refused(path, content)
        if wrong is not None:
            return 400, {"error": {"message": wrong.message}}
        body = json.loads(content)
        self.bodies.append(body)
        first = json.dumps(body.get("messages") or body.get("prompt") or body.get("input"))
        return 200, next(
            (message for text, message in self.instead.items() if text in first), answered(path, body)
        )


@pytest.fixture
def gate() -> Iterator[tuple[Gate, str]]:
    play = Gate()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, message = play.reply(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            content = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield play, f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def run(
    folder: Path, url: str, rows: list[dict[str, Any]], kind: str = "OpenAI", **request: Any
) -> dict[str, dict[str, Any]]:
    """Run a batch; return the lines of both files, or the rows of the table, by custom_id."""
    folder.mkdir(exist_ok=True)
    (folder / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    order = Order.read(
        {
            "uid": "u",
            "input": {"uri": f"file://{folder}/in.jsonl", "format": "OpenAI"},
            "output": {"uri": f"file://{folder}/out", "format": kind},
            "request": request,
            "service": {"url": url, "model": "tiny", "patience_seconds": 5.0},
        }
    )
    program.run(order, Progress("u"), folder / "tmp")
    lines = [line for file in (folder / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    return {found["custom_id"]: found for found in map(json.loads, lines)}


def test_answers_to_every_batch_url_parse_as_openai_types(gate: tuple[Gate, str], tmp_path: Path) -> None:
    _, url = gate
    chat = run(tmp_path / "chat", url, [send_request(CHAT, messages=MESSAGES)])
    text = run(tmp_path / "text", url, [send_request(TEXT, prompt="a")])
    embed = run(tmp_path / "embed", url, [send_request(EMBED, input="a")], task="embed")
    ChatCompletion.model_validate(chat["c0"]["response"]["body"], strict=True)
    Completion.model_validate(text["c0"]["response"]["body"], strict=True)
    vector = CreateEmbeddingResponse.model_validate(embed["c0"]["response"]["body"], strict=True)
    assert vector.data[0].embedding == [0.5, 0.25]


def test_tool_calls_and_multiple_choices_parse_as_openai_types(
    gate: tuple[Gate, str], tmp_path: Path
) -> None:
    _, url = gate
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    rows = [
        send_request(CHAT, 0, messages=MESSAGES, tools=[tool], tool_choice="required"),
        send_request(CHAT, 1, messages=MESSAGES, n=2),
    ]
    found = run(tmp_path, url, rows)
    called = ChatCompletion.model_validate(found["c0"]["response"]["body"], strict=True)
    assert called.choices[0].message.tool_calls is not None
    several = ChatCompletion.model_validate(found["c1"]["response"]["body"], strict=True)
    assert len(several.choices) == 2


@pytest.mark.parametrize(
    ("url", "more", "named"),
    [
        (CHAT, {"messages": MESSAGES, "n": 2}, "n"),
        (CHAT, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 2}, "logprobs, top_logprobs"),
        (CHAT, {"messages": MESSAGES, "tools": [{"type": "function"}]}, "tools"),
        (TEXT, {"prompt": ["a", "b"]}, "prompt"),
    ],
)
def test_request_for_output_without_a_column_fails_only_its_row(
    gate: tuple[Gate, str], tmp_path: Path, url: str, more: dict[str, Any], named: str
) -> None:
    play, address = gate
    good = (
        send_request(TEXT, 1, prompt="a")
        if url == TEXT
        else send_request(CHAT, 1, messages=MESSAGES, n=1, tools=[])
    )
    found = run(tmp_path, address, [send_request(url, **more), good], kind="JSONL")
    assert f"requests {named}: " in found["c0"]["error"]
    assert (found["c1"]["response"], found["c1"]["error"]) == ("b", None)
    assert len(play.bodies) == 1


@pytest.mark.parametrize(
    "report", [{}, {"choices": []}, {"choices": [{}]}, [], "x", {"choices": 3}, b"[" * 5000]
)
def test_answer_without_completion_fails_only_its_row(
    gate: tuple[Gate, str], tmp_path: Path, report: Any
) -> None:
    play, url = gate
    play.instead = {"odd": report}
    rows = [send_request(TEXT, 0, prompt="odd"), send_request(TEXT, 1, prompt="a")]
    found = run(tmp_path, url, rows, kind="JSONL")
    assert "answered 200" in found["c0"]["error"]
    assert found["c1"]["response"] == "b"


def test_lone_surrogate_in_answer_is_replaced(gate: tuple[Gate, str], tmp_path: Path) -> None:
    play, url = gate
    whole = answered(TEXT, {})
    whole["choices"][0]["text"] = "cut \ud83d"
    play.instead = {"odd": whole}
    found = run(tmp_path, url, [send_request(TEXT, 0, prompt="odd"), send_request(TEXT, 1, prompt="a")])
    assert found["c0"]["response"]["body"]["choices"][0]["text"] == "cut \ufffd"


def test_body_parameters_override_batch_parameters_at_the_service() -> None:
    request = Request(sampling_params={"max_tokens": 8, "temperature": 0, "seed": 1})
    body = ask(SERVICE, request, send_request(CHAT, messages=MESSAGES, temperature=0.5, seed=None))[1]
    assert (body["max_tokens"], body["temperature"], body["seed"]) == (8, 0.5, 1)
    body = ask(SERVICE, request, send_request(CHAT, messages=MESSAGES, max_completion_tokens=4))[1]
    assert (body["max_completion_tokens"], "max_tokens" in body) == (4, False)
    request = Request(task="embed", sampling_params={"dimensions": 8})
    assert ask(SERVICE, request, send_request(EMBED, input="a"))[1]["dimensions"] == 8


@pytest.mark.parametrize("url", [CHAT, TEXT])
@pytest.mark.parametrize(
    "own", [None, {"type": "text"}, {"type": "json_schema", "json_schema": {"schema": SCHEMA}}]
)
def test_guided_json_reaches_service_for_batch_file_rows(url: str, own: Any) -> None:
    message: dict[str, Any] = {"messages": MESSAGES} if url == CHAT else {"prompt": "a"}
    row = send_request(url, **message, response_format=own)
    body = ask(SERVICE, Request(guided_json=SCHEMA), row)[1]
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize(
    "own",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": OTHER}}},
        {"response_format": {"type": "json_object"}},
        {"response_format": "text"},
        {"structured_outputs": {"regex": "a+"}},
    ],
)
def test_row_format_that_conflicts_with_guided_json_raises_row_error(own: dict[str, Any]) -> None:
    with pytest.raises(RowError, match="guidedJson"):
        ask(SERVICE, Request(guided_json=SCHEMA), send_request(CHAT, messages=MESSAGES, **own))


def test_chat_template_of_batch_reaches_service_for_chat_rows() -> None:
    request = Request(
        prompt="{{ q }}", chat_template="{{ messages }}", chat_template_kwargs={"enable_thinking": False}
    )
    for row in ({"q": "a"}, send_request(CHAT, messages=MESSAGES)):
        body = ask(SERVICE, request, row)[1]
        assert body["chat_template"] == "{{ messages }}"
        assert body["chat_template_kwargs"] == {"enable_thinking": False}
    row = send_request(CHAT, messages=MESSAGES, chat_template_kwargs={"enable_thinking": True})
    assert ask(SERVICE, request, row)[1]["chat_template_kwargs"] == {"enable_thinking": True}
    for row in (send_request(TEXT, prompt="a"), send_request(EMBED, input="a")):
        task = "embed" if row["url"] == EMBED else "generate"
        other = Request(task=task, chat_template_kwargs={"enable_thinking": False})
        assert "chat_template_kwargs" not in ask(SERVICE, other, row)[1]


def test_streaming_fields_of_rows_are_disabled_or_removed() -> None:
    more: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    body = ask(SERVICE, Request(), send_request(CHAT, messages=MESSAGES, **more))[1]
    assert (body["stream"], "stream_options" in body) == (False, False)
    assert "stream" not in ask(SERVICE, Request(task="embed"), send_request(EMBED, input="a", **more))[1]


@pytest.mark.parametrize("name", ["model", "messages", "prompt", "input", "stream"])
def test_reserved_field_as_sampling_parameter_raises_row_error(name: str) -> None:
    request = Request(prompt="{{ q }}", sampling_params_column="p")
    with pytest.raises(RowError, match=f"{name} is no sampling parameter"):
        ask(SERVICE, request, {"q": "a", "p": {name: "x"}})


@pytest.mark.parametrize("method", ["GET", "post", 3])
def test_method_other_than_post_raises_row_error(method: Any) -> None:
    with pytest.raises(RowError, match="method"):
        ask(SERVICE, Request(), send_request(CHAT, messages=MESSAGES) | {"method": method})


def test_row_rejected_by_gateway_fails_only_that_row(gate: tuple[Gate, str], tmp_path: Path) -> None:
    _, url = gate
    rows = [
        send_request(CHAT, 0, messages=MESSAGES, allowed_token_ids=[1]),
        send_request(CHAT, 1, messages=MESSAGES),
    ]
    found = run(tmp_path, url, rows)
    assert "allowed_token_ids" in found["c0"]["error"]["message"]
    assert found["c1"]["error"] is None
