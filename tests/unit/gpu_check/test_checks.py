"""Requests that `make gpu-check` sends on a path to the model."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.gpu.checks import checks


class _Model(http.server.BaseHTTPRequestHandler):
    short = False
    detail = False

    def do_GET(self) -> None:
        self._answer(200, json.dumps({"data": [{"id": "m"}]}))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tokens = request["max_tokens"] - self.short
        usage = {"completion_tokens": tokens}
        if request["model"] != "m":
            self._answer(404, json.dumps({"detail": "no"} if self.detail else {"error": {"message": "no"}}))
        elif request.get("stream"):
            events: list[dict[str, Any]] = [{"choices": [{"delta": {"content": "a"}}]}, {"choices": []}]
            events[-1]["usage"] = usage
            lines = [f"data: {json.dumps(event)}\n\n" for event in events]
            self._answer(200, "".join([*lines, "data: [DONE]\n\n"]))
        else:
            self._answer(200, json.dumps({"choices": [{"message": {"content": "a"}}], "usage": usage}))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@contextmanager
def _send_request(**kind: bool) -> Iterator[tuple[str, int]]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Model,), kind))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield "127.0.0.1", server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_all_checks_pass_if_model_answers_correctly() -> None:
    with _send_request() as address:
        assert set(checks(address, "m").values()) == {True}


def test_failed_checks_name_wrong_token_count() -> None:
    with _send_request(short=True) as address:
        found = checks(address, "m")
    assert found["models"] is True
    assert "completion_tokens" in found["chat"]
    assert "completion_tokens" in found["stream"]


def test_models_check_shows_available_models_if_model_is_missing() -> None:
    with _send_request() as address:
        assert "['m']" in checks(address, "other")["models"]


def test_error_shape_check_fails_unless_openai_errors_is_off() -> None:
    with _send_request(detail=True) as address:
        assert checks(address, "m")["unknown_model_in_openai_shape"] is False
        assert set(checks(address, "m", openai_errors=False).values()) == {True}


def test_no_check_passes_if_server_is_unreachable() -> None:
    with _send_request() as address:
        pass
    assert True not in checks(address, "m").values()
