"""Progress of a copy, reported over HTTP during the copy."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from daybreak.pod_programs.fill.files import files_below, size_of

PATH = "/-/fill"
LOOK_SECONDS = 2.0
"""Time in seconds for which one scan of the files serves all requests."""


class Progress:
    """Progress of the copy into a directory, read from the files on request."""

    def __init__(self, directory: str) -> None:
        self._reported: dict[str, Any] = {"directory": directory, "copied": 0, "bytes": None}
        self._into: Path | None = None
        self._looked = 0.0

    def begin(self, into: Path, total: int) -> None:
        """Start to report the copy of `total` bytes into a directory, some of which may exist already."""
        self._reported["bytes"] = total
        self._into, self._looked = into, 0.0

    def report(self) -> dict[str, Any]:
        """Return the report. Partial files count, regardless of where a client stores them."""
        now = time.monotonic()
        if self._into is not None and now - self._looked > LOOK_SECONDS:
            self._looked = now
            with contextlib.suppress(OSError):  # partial files appear and disappear
                found = sum(max(0, size_of(path)) for path in files_below(self._into))
                self._reported["copied"] = max(self._reported["copied"], min(found, self._reported["bytes"]))
        return dict(self._reported)

    @contextlib.contextmanager
    def reported(self, port: int) -> Iterator[None]:
        """Serve the report at a port during the copy.

        If the port is taken, the copy continues without reports.
        """
        progress = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0  # limit for a client that connects and sends nothing, which blocks other clients

            def do_GET(self) -> None:  # name required by the base class
                body = json.dumps(progress.report()).encode() if self.path == PATH else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Log nothing, because requests arrive every few seconds."""

        try:
            server = HTTPServer(("", port), Handler)
        except OSError as error:
            print(f"Progress is not reported: {error}", flush=True)
            yield
            return
        threading.Thread(target=server.serve_forever, daemon=True, name="progress").start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
