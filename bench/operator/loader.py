"""Loader for many requests to the API server with little CPU time for each, as all share the cores."""

import concurrent.futures
import http.client
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

from tests.api.admin import Admin

LOADERS = 4
Send = Callable[[str, str, bytes], bytes]
"""Function that sends a request by method, path and body, requires success, and returns the answer's body."""
T = TypeVar("T")


def spread(admin: Admin, work: Callable[[Send, T], object], items: Sequence[T]) -> None:
    """Do the work for each item, over a few concurrent connections."""
    headers = {**admin.headers, "Content-Type": "application/json"}

    def share(first: int) -> None:
        with closing(admin.connection()) as connection:

            def send(method: str, path: str, body: bytes) -> bytes:
                return _send(connection, headers, method, path, body)

            for item in items[first::LOADERS]:
                work(send, item)

    with concurrent.futures.ThreadPoolExecutor(LOADERS) as pool:
        list(pool.map(share, range(LOADERS)))


def _send(
    connection: http.client.HTTPConnection, headers: dict[str, str], method: str, path: str, body: bytes
) -> bytes:
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    message = answer.read()
    assert answer.status < 300, message  # noqa: S101 -- no result without
    return message
