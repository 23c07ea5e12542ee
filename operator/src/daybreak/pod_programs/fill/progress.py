"""How far a copy is, told over HTTP while it goes on."""

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
"""How long one look at the files does for everybody who asks."""


class Progress:
    """How far the copy into a directory is, read from the files themselves when somebody asks."""

    def __init__(self, directory: str) -> None:
        self._told: dict[str, Any] = {"directory": directory, "copied": 0, "bytes": None}
        self._into: Path | None = None
        self._looked = 0.0

    def begin(self, into: Path, total: int) -> None:
        """So many bytes are gathered there from now on, some of which may be there already."""
        self._told["bytes"] = total
        self._into, self._looked = into, 0.0

    def report(self) -> dict[str, Any]:
        """What is told. Parts of files count, wherever a client keeps them."""
        now = time.monotonic()
        if self._into is not None and now - self._looked > LOOK_SECONDS:
            self._looked = now
            with contextlib.suppress(OSError):  # parts of files come and go
                found = sum(max(0, size_of(path)) for path in files_below(self._into))
                self._told["copied"] = max(self._told["copied"], min(found, self._told["bytes"]))
        return dict(self._told)

    @contextlib.contextmanager
    def told(self, port: int) -> Iterator[None]:
        """Answer there meanwhile. Where the port is taken nobody is told, and it works all the same."""
        progress = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0  # one who asks, and then says nothing, keeps nobody waiting for longer

            def do_GET(self) -> None:  # the name that the base class looks for
                body = json.dumps(progress.report()).encode() if self.path == PATH else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Asked every few seconds: nobody wants to read that."""

        try:
            server = HTTPServer(("", port), Handler)
        except OSError as error:
            print(f"nobody is told how far it is: {error}", flush=True)
            yield
            return
        threading.Thread(target=server.serve_forever, daemon=True, name="progress").start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
