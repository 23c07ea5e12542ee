"""Writable fake of S3: buckets in memory, with the requests that pyarrow uses.

A request with another access key is rejected; signatures are not checked. A multipart upload counts when
it is completed, as with the real S3.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.unit.runtime.store_server import StoreHandler, at_a_free_port

ACCESS_KEY = "fake-access-key"
SECRET_KEY = "fake-secret-key"  # noqa: S105 - nobody checks it
_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


class Buckets:
    """Stored buckets and objects."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.objects: dict[str, bytes] = {}
        """Content by `bucket/key`."""
        self.parts: dict[str, dict[int, bytes]] = {}
        """Parts of uncompleted uploads."""
        self.lock = threading.Lock()


@contextmanager
def served(buckets: Buckets) -> Iterator[str]:
    """Serve the buckets at a free local port, and yield the endpoint's URL."""

    class Handler(_Handler):
        pass

    Handler.buckets = buckets
    with at_a_free_port(Handler) as address:
        yield address


class _Handler(StoreHandler):
    buckets: Buckets

    def answer(self) -> None:
        body = self._body()
        url = urlsplit(self.path)
        path, query = unquote(url.path).lstrip("/"), parse_qs(url.query, keep_blank_values=True)
        if f"Credential={ACCESS_KEY}/" not in self.headers.get("Authorization", ""):
            self._error(HTTPStatus.FORBIDDEN, "InvalidAccessKeyId")
        elif path.partition("/")[0] not in self.buckets.names:
            self._error(HTTPStatus.NOT_FOUND, "NoSuchBucket")
        else:
            with self.buckets.lock:
                getattr(self, f"_{self.command.lower()}")(path, query, body)

    def _head(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        self._get(path, query, body)

    def _get(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        bucket, _, key = path.partition("/")
        if not key:
            self._answer(HTTPStatus.OK, self._list(bucket, query) if "list-type" in query else b"")
        elif path not in self.buckets.objects:
            self._error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        else:
            content = self.buckets.objects[path]
            desired = self.headers.get("Range", "")
            if desired:
                first, _, last = desired.removeprefix("bytes=").partition("-")
                content = content[int(first) : int(last or len(content)) + 1]
            self._answer(HTTPStatus.PARTIAL_CONTENT if desired else HTTPStatus.OK, content)

    def _put(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploadId" in query:
            self.buckets.parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
        elif path.partition("/")[2]:
            self.buckets.objects[path] = body
        self._answer(HTTPStatus.OK, b"", ETag='"e"')

    def _post(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploads" in query:
            upload = f"upload-{len(self.buckets.parts)}"
            self.buckets.parts[upload] = {}
            kind = "InitiateMultipartUploadResult"
            found = f"<{kind}><UploadId>{upload}</UploadId></{kind}>"
            self._answer(HTTPStatus.OK, found.encode())
        elif "uploadId" in query:
            parts = self.buckets.parts.pop(query["uploadId"][0])
            self.buckets.objects[path] = b"".join(parts[number] for number in sorted(parts))
            found = '<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>'
            self._answer(HTTPStatus.OK, found.encode())
        else:
            self._error(HTTPStatus.NOT_IMPLEMENTED, "NotImplemented")

    def _delete(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploadId" in query:
            self.buckets.parts.pop(query["uploadId"][0], None)
        self.buckets.objects.pop(path, None)
        self._answer(HTTPStatus.NO_CONTENT, b"")

    def _list(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        delimiter = query.get("delimiter", [""])[0]
        most = int(query.get("max-keys", ["1000"])[0])
        contents, common = [], set()
        for path, content in sorted(self.buckets.objects.items()):
            owner, _, key = path.partition("/")
            if owner != bucket or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                common.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            contents.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        folders = [
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(common)
        ]
        shown = (contents + folders)[:most]
        return (
            f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>"
            f"<KeyCount>{len(shown)}</KeyCount>{''.join(shown)}</ListBucketResult>"
        ).encode()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            raw = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return _unchunked(raw) if "aws-chunked" in self.headers.get("Content-Encoding", "") else raw

    def _error(self, status: HTTPStatus, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _answer(self, status: HTTPStatus, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Last-Modified": _DATE, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _unchunked(raw: bytes) -> bytes:
    """Return the content of a body in the SDK's chunks, each with its size, and a checksum after them."""
    found = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        if not length:
            break
        found, raw = found + raw[:length], raw[length + 2 :]
    return found
