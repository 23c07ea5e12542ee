"""Local server that simulates an object store in a test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def at_a_free_port(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve with that handler; the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class StoreHandler(BaseHTTPRequestHandler):
    """Every request is `answer`'s."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        """Answer this request, of any method."""
        raise NotImplementedError

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def log_message(self, format: str, *args: object) -> None:
        """Discard the log message."""
