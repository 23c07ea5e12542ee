"""Locks between several runs of this program and its threads, so that two never work on the same thing."""

import contextlib
import fcntl
import sys
from collections.abc import Iterator

from cluster import paths


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the lock of that name; when it is held already, say so and wait."""
    folder = paths.DAYBREAK / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"cluster: waiting until {name} is free", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
