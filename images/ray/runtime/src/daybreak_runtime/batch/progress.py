"""Telling how far a batch is: the operator asks over HTTP, and says when it has kept the last word."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/-/batch"
HEARD = "heard=true"
"""Query of an operator that has the last word in the status of the LLMBatch."""
HEARD_SECONDS = 600.0
"""How long that is waited for before the process ends all the same."""
_RATE_SECONDS = 60.0
"""Over how long rates are averaged."""


class Progress:
    """What is known of a batch at this moment, told on a port.

    Args:
        uid: Of the LLMBatch.
    """

    def __init__(self, uid: str) -> None:
        self._lock = threading.Lock()
        self._heard = threading.Event()
        self._said: dict[str, Any] = {"uid": uid, "state": "Reading", "rows": {}, "final": False}
        self._points: list[tuple[float, int, int]] = []
        self._server: ThreadingHTTPServer | None = None

    def listen(self, port: int) -> int:
        """Begin to answer. Returns the port, another one where 0 was asked for."""
        progress = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that the base class looks for
                path, _, query = self.path.partition("?")
                body = json.dumps(progress.report()).encode() if path == PATH else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                if body and query == HEARD and progress.report()["final"]:
                    progress._heard.set()

            def log_message(self, *_: Any) -> None:
                """Asked every few seconds: nobody wants to read that."""

        self._server = ThreadingHTTPServer(("", port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True, name="progress").start()
        return int(self._server.server_address[1])

    def report(self) -> dict[str, Any]:
        """What is told."""
        with self._lock:
            return dict(self._said)

    def state(self, state: str) -> None:
        """One word on what is done: Reading, Starting, Running."""
        with self._lock:
            self._said["state"] = state

    def rows(self, *, total: int, done: int, failed: int, prompt_tokens: int, completion_tokens: int) -> None:
        """How many rows there are, are written, and have failed; and the tokens of those that are written."""
        now, tokens = time.monotonic(), prompt_tokens + completion_tokens
        with self._lock:
            self._said["rows"] = {"total": total, "done": done, "failed": failed}
            self._said["tokens"] = {"prompt": prompt_tokens, "completion": completion_tokens}
            self._points.append((now, done, tokens))
            while len(self._points) > 2 and now - self._points[1][0] > _RATE_SECONDS:
                self._points.pop(0)
            first = self._points[0]
            if now - first[0] > 1:
                self._said["rowsPerSecond"] = round((done - first[1]) / (now - first[0]), 3)
                self._said["tokensPerSecond"] = round((tokens - first[2]) / (now - first[0]), 3)

    def errors(self, first: list[str]) -> None:
        """Why the first rows have failed."""
        with self._lock:
            self._said["errors"] = [text[:300] for text in first]

    def end(self, reason: str = "", message: str = "") -> bool:
        """The last word: it is done, or cannot go on for a reason. Waits, for a while, until it is kept.

        Returns whether it is.
        """
        with self._lock:
            self._said |= {"state": "Failed" if reason else "Succeeded", "final": True}
            if reason:
                self._said |= {"reason": reason, "message": message[:2000]}
        return self._heard.wait(HEARD_SECONDS if self._server else 0)

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
