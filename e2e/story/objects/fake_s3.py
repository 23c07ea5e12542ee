"""Fake S3: the API that a client needs to copy files out of a bucket, served from a local folder.

It lists objects (ListObjectsV2, one page), and serves whole files to clients that sign with its one access
key. Signatures are not checked, and nothing can be written. moto's server would do more, but no release of
its dependency botocore is compatible with the Kubernetes client's python-dateutil.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit
from xml.sax.saxutils import escape

REGION = "eu-central-1"
ACCESS_KEY = "fake-access-key"
SECRET_KEY = "fake-secret-key"  # noqa: S105 - a fake key that is not checked
_CODES = {
    HTTPStatus.FORBIDDEN: ("InvalidAccessKeyId", "The access key Id you provided does not exist."),
    HTTPStatus.NOT_FOUND: ("NoSuchKey", "The specified key does not exist."),
}


@contextmanager
def fake_s3(address: str, folder: Path) -> Iterator[str]:
    """Serve a folder of bucket folders at a free port of one address, and yield the endpoint's URL."""
    handler = partial(_Handler, directory=str(folder))
    with ThreadingHTTPServer((address, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{address}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Handler(SimpleHTTPRequestHandler):
    """Handler that serves objects as files; only the list and the errors have S3's own format."""

    def do_HEAD(self) -> None:
        if self._signed():
            super().do_HEAD()

    def do_GET(self) -> None:
        if not self._signed():
            return
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if "list-type" in query:
            self._list(url.path.strip("/"), query.get("prefix", [""])[0])
        else:
            super().do_GET()

    def _signed(self) -> bool:
        known = f"Credential={ACCESS_KEY}/" in self.headers.get("Authorization", "")
        if not known:
            self.send_error(HTTPStatus.FORBIDDEN)
        return known

    def _list(self, bucket: str, prefix: str) -> None:
        root = Path(self.directory) / bucket
        if not bucket or not root.is_dir():
            self._answer(HTTPStatus.NOT_FOUND, _error("NoSuchBucket", "The specified bucket does not exist"))
            return
        keys = {file.relative_to(root).as_posix(): file for file in sorted(root.rglob("*")) if file.is_file()}
        contents = "".join(
            f"<Contents><Key>{quote(key)}</Key><Size>{file.stat().st_size}</Size></Contents>"
            for key, file in keys.items()
            if key.startswith(prefix)
        )
        self._answer(
            HTTPStatus.OK,
            f"<ListBucketResult><Name>{escape(bucket)}</Name><EncodingType>url</EncodingType>"
            f"<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>",
        )

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self._answer(code, _error(*_CODES.get(HTTPStatus(code), (str(code), message or ""))))

    def _answer(self, code: int, document: str) -> None:
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n{document}'.encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the access log."""


def _error(code: str, message: str) -> str:
    return f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
