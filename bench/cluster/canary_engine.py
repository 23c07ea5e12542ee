"""Simulated engine: it answers completions at once with its name, or with 500 after a request to `/fail`.

It runs in a pod as `python -c`, with its name and port as arguments, and imports nothing of Daybreak.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME, PORT = sys.argv[1], int(sys.argv[2])


class Handler(BaseHTTPRequestHandler):
    """Handler of the engine; after `POST /fail`, every completion receives 500."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    failing = False

    def do_GET(self) -> None:
        """Answer the health check, and list the one model."""
        self._answer(200, {"object": "list", "data": [{"id": NAME, "object": "model"}]})

    def do_POST(self) -> None:
        """Answer a completion."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/fail":
            Handler.failing = True
            self._answer(200, {})
        elif Handler.failing:
            self._answer(500, {"error": {"message": "failure was requested", "type": "server_error"}})
        else:
            choice = {"index": 0, "text": NAME, "finish_reason": "stop", "logprobs": None}
            model = json.loads(body).get("model")
            answer = {"id": "cmpl-0", "object": "text_completion", "created": 1, "model": model}
            self._answer(200, {**answer, "choices": [choice]})

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


ThreadingHTTPServer(("", PORT), Handler).serve_forever()
