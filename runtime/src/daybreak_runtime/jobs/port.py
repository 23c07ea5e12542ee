"""Telling how far a job is: the operator asks over HTTP, and says when it has kept the last word."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from daybreak_runtime.jobs.json_text import encode_utf8

HEARD = "heard=true"
"""Query of an operator that has the last word in the status of the object."""
HEARD_SECONDS = 600.0
"""How long that is waited for before the process ends all the same."""


class ProgressPort:
    """What is known of a job at this moment, told on a port.

    Args:
        uid: Of the object that the job is for.
        path: Where it is told.
        said: What is told at first.
    """

    def __init__(self, uid: str, path: str, said: dict[str, Any]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._heard = threading.Event()
        self._said: dict[str, Any] = {"uid": uid, **said, "final": False}
        self._server: ThreadingHTTPServer | None = None

    def listen(self, port: int) -> int:
        """Begin to answer. Returns the port, another one where 0 was asked for."""
        progress = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that the base class looks for
                path, _, query = self.path.partition("?")
                report = progress.report()
                # As text and not as escapes: the operator's parser rejects half of a surrogate pair.
                said = json.dumps(report, ensure_ascii=False) if path == progress._path else ""
                body = encode_utf8(said)
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                if body and query == HEARD and report["final"]:
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

    def say(self, **parts: Any) -> None:
        """Change parts of what is told."""
        with self._lock:
            self._said |= parts

    def state(self, state: str) -> None:
        """One word on what is done."""
        self.say(state=state)

    def end(self, reason: str = "", message: str = "") -> bool:
        """The last word: it is done, or cannot go on for a reason. Waits, for a while, until it is kept.

        Returns whether it is.
        """
        why = {"reason": reason, "message": message[:2000]} if reason else {}
        self.say(state="Failed" if reason else "Succeeded", final=True, **why)
        return self._heard.wait(HEARD_SECONDS if self._server else 0)

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
