"""A fake Hugging Face Hub: the endpoints that its client needs to list a repository and to fetch its files.

Each repository is a folder of this machine, and has one commit, which is also `main`. Every client can list
a repository with a name that begins with `gated`, but its files need a token.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_fakefakefakefake"  # noqa: S105 - used only in tests


class Hub(ThreadingHTTPServer):
    """The server, with a record of the requested files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.fetched: list[str] = []

    @property
    def url(self) -> str:
        """Return the address for `HF_ENDPOINT`."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def fake_hub(folder: Path) -> Iterator[Hub]:
    """Serve a folder with a folder for each owner, in which each repository is a folder."""
    with Hub(folder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        if parts[:2] == ["api", "models"] and parts[4:5] == ["tree"]:
            self._tree("/".join(parts[2:4]), parts[5])
        elif parts[:2] == ["api", "models"]:
            revision = parts[5] if len(parts) > 5 else "main"
            self._info("/".join(parts[2:4]), revision)
        elif len(parts) > 4 and parts[2] == "resolve":
            self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            self._refuse(404, "EntryNotFound")

    def _known(self, repository: str, revision: str) -> bool:
        if not (self.server.folder / repository).is_dir():
            # To a client without access, a private repository does not exist.
            self._refuse(401, "RepoNotFound")
        elif revision not in ("main", COMMIT):
            self._refuse(404, "RevisionNotFound")
        else:
            return True
        return False

    def _info(self, repository: str, revision: str) -> None:
        if not self._known(repository, revision):
            return
        root = self.server.folder / repository
        siblings = [
            {"rfilename": path.relative_to(root).as_posix(), "size": path.stat().st_size}
            for path in sorted(root.rglob("*"))
            if path.is_file()
        ]
        self._send(200, json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode())

    def _tree(self, repository: str, revision: str) -> None:
        if not self._known(repository, revision):
            return
        root = self.server.folder / repository
        found = [
            {
                "type": "file",
                "path": path.relative_to(root).as_posix(),
                "size": path.stat().st_size,
                "oid": "0" * 40,
            }
            for path in sorted(root.rglob("*"))
            if path.is_file()
        ]
        self._send(200, json.dumps(found).encode())

    def _file(self, repository: str, revision: str, name: str) -> None:
        if not self._known(repository, revision):
            return
        gated = repository.partition("/")[2].startswith("gated")
        if gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._refuse(401, "GatedRepo")
            return
        content = (self.server.folder / repository / name).read_bytes()
        if self.command == "GET":
            self.server.fetched.append(name)
        etag = f'"{hashlib.sha1(content).hexdigest()}"'  # noqa: S324 - as the hub does
        self._send(200, content, **{"ETag": etag, "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"})

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"{}", **{"X-Error-Code": code, "X-Error-Message": code})

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
