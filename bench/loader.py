"""Many requests to the API server with little work for each: what the loader takes, the others lack."""

import concurrent.futures
import http.client
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

from tests.api.admin import Admin

LOADERS = 4
T = TypeVar("T")


def spread(admin: Admin, work: Callable[[http.client.HTTPConnection, T], object], items: Sequence[T]) -> None:
    """Do the work for each item, over a few connections at once."""

    def share(first: int) -> None:
        with closing(admin.connection()) as connection:
            for item in items[first::LOADERS]:
                work(connection, item)

    with concurrent.futures.ThreadPoolExecutor(LOADERS) as pool:
        list(pool.map(share, range(LOADERS)))


def send(connection: http.client.HTTPConnection, method: str, path: str, body: bytes) -> bytes:
    """One request that must succeed; its answer's body."""
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status < 300, said  # noqa: S101 -- no result without
    return said
