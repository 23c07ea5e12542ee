"""Progress of a job over HTTP: the operator polls it, and confirms the final report."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from daybreak_runtime.jobs.json_text import encode_utf8

HEARD = "heard=true"
"""Query of an operator that has stored the final report in the object's status."""
HEARD_SECONDS = 600.0
"""Maximum seconds to wait for the confirmation of the final report before the process ends."""


class ProgressPort:
    """Server of a job's progress on a port.

    Args:
        uid: UID of the job's object.
        path: Path of the report.
        report: Initial content of the report.
    """

    def __init__(self, uid: str, path: str, report: dict[str, Any]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._received = threading.Event()
        self._message: dict[str, Any] = {"uid": uid, **report, "final": False}
        self._server: ThreadingHTTPServer | None = None

    def listen(self, port: int) -> int:
        """Start the server. Returns the port, which differs if 0 was given."""
        progress = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that the base class requires
                path, _, query = self.path.partition("?")
                report = progress.report()
                # As text and not as escapes: the operator's parser rejects half of a surrogate pair.
                message = json.dumps(report, ensure_ascii=False) if path == progress._path else ""
                body = encode_utf8(message)
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                if body and query == HEARD and report["final"]:
                    progress._received.set()

            def log_message(self, *_: Any) -> None:
                """Log nothing, because the operator polls every few seconds."""

        self._server = ThreadingHTTPServer(("", port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True, name="progress").start()
        return int(self._server.server_address[1])

    def report(self) -> dict[str, Any]:
        """Return the report."""
        with self._lock:
            return dict(self._message)

    def write(self, **parts: Any) -> None:
        """Update parts of the report."""
        with self._lock:
            self._message |= parts

    def state(self, state: str) -> None:
        """Set the state in the report."""
        self.write(state=state)

    def end(self, reason: str = "", message: str = "") -> bool:
        """Send the final report: success, or failure with a reason.

        Waits for a limited time for its confirmation.

        Returns True if it was confirmed.
        """
        why = {"reason": reason, "message": message[:2000]} if reason else {}
        self.write(state="Failed" if reason else "Succeeded", final=True, **why)
        return self._received.wait(HEARD_SECONDS if self._server else 0)

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
