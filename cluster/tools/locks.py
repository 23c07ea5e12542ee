"""Locks between runs and threads of this program, so that two never work on the same thing."""

import contextlib
import fcntl
import sys
from collections.abc import Iterator

from cluster import paths


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the named lock; if it is taken, print a message and wait."""
    folder = paths.DAYBREAK / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"cluster: waiting until {name} is free", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
