"""Writable fake of Google Cloud Storage: buckets in memory, with the requests that pyarrow uses.

The bucket in `closed` denies all access.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.unit.runtime.store_server import StoreHandler, at_a_free_port

_DATE = "2026-01-01T00:00:00.000Z"
_PATH = re.compile(r"/(?:upload/|download/)?storage/v1/b/([^/]+)/o(?:/(.+))?")


class Buckets:
    """Stored buckets and objects."""

    def __init__(self, *names: str, closed: str = "closed") -> None:
        self.names = {*names, closed}
        self.closed = closed
        self.objects: dict[str, bytes] = {}
        """Content by `bucket/key`."""
        self.uploads: dict[str, tuple[str, bytes]] = {}
        """Name and current content of uncompleted uploads."""
        self.lock = threading.Lock()


@contextmanager
def served(buckets: Buckets) -> Iterator[str]:
    """Serve the buckets at a free local port, and yield the address."""

    class Handler(_Handler):
        pass

    Handler.buckets = buckets
    with at_a_free_port(Handler) as address:
        yield address


class _Handler(StoreHandler):
    buckets: Buckets

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        query = {name: value[0] for name, value in parse_qs(url.query, keep_blank_values=True).items()}
        found = _PATH.fullmatch(url.path)
        bucket, key = (found[1], unquote(found[2] or "")) if found else ("", "")
        if bucket == self.buckets.closed:
            self._error(HTTPStatus.FORBIDDEN, "forbidden")
        elif bucket not in self.buckets.names:
            self._error(HTTPStatus.NOT_FOUND, "notFound")
        else:
            with self.buckets.lock:
                getattr(self, f"_{self.command.lower()}")(bucket, key, query, body)

    def _get(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        path = f"{bucket}/{key}"
        if not key:
            self._json({"kind": "storage#objects", "items": self._listed(bucket, query.get("prefix", ""))})
        elif path not in self.buckets.objects:
            self._error(HTTPStatus.NOT_FOUND, "notFound")
        elif query.get("alt") != "media":
            self._json(self._described(path))
        else:
            content, desired = self.buckets.objects[path], self.headers.get("Range", "")
            first, _, last = desired.removeprefix("bytes=").partition("-")
            part = content[int(first or 0) : int(last or len(content)) + 1]
            bounds = f"bytes {int(first or 0)}-{int(first or 0) + len(part) - 1}/{len(content)}"
            status = HTTPStatus.PARTIAL_CONTENT if desired else HTTPStatus.OK
            self._answer(status, part, **{"Content-Range": bounds} if desired else {})

    def _post(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        upload = f"upload-{len(self.buckets.uploads)}"
        self.buckets.uploads[upload] = (f"{bucket}/{query['name']}", b"")
        place = f"http://{self.headers['Host']}/upload/storage/v1/b/{bucket}/o?upload_id={upload}"
        self._answer(HTTPStatus.OK, b"", Location=place)

    def _put(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        upload = query["upload_id"]
        path, before = self.buckets.uploads[upload]
        content = before + body
        if self.headers["Content-Range"].endswith("/*"):
            self.buckets.uploads[upload] = (path, content)
            self._answer(HTTPStatus.PERMANENT_REDIRECT, b"", Range=f"bytes=0-{len(content) - 1}")
        else:
            del self.buckets.uploads[upload]
            self.buckets.objects[path] = content
            self._json(self._described(path))

    def _delete(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        if self.buckets.objects.pop(f"{bucket}/{key}", None) is None:
            self._error(HTTPStatus.NOT_FOUND, "notFound")
        else:
            self._answer(HTTPStatus.NO_CONTENT, b"")

    def _listed(self, bucket: str, prefix: str) -> list[dict[str, Any]]:
        return [
            self._described(path)
            for path in sorted(self.buckets.objects)
            if path.startswith(f"{bucket}/{prefix}")
        ]

    def _described(self, path: str) -> dict[str, Any]:
        bucket, _, key = path.partition("/")
        times = dict.fromkeys(("timeCreated", "updated"), _DATE)
        size = str(len(self.buckets.objects[path]))
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": key,
            "size": size,
            "generation": "1",
        } | times

    def _json(self, found: dict[str, Any]) -> None:
        self._answer(HTTPStatus.OK, json.dumps(found).encode(), **{"Content-Type": "application/json"})

    def _error(self, status: HTTPStatus, reason: str) -> None:
        error = {"code": status, "message": reason, "errors": [{"reason": reason}]}
        self._answer(status, json.dumps({"error": error}).encode(), **{"Content-Type": "application/json"})

    def _answer(self, status: HTTPStatus, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
