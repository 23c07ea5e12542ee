"""Loopback ports for control planes that run side by side.

A port is reserved in one file under a lock, so that two control planes which start at the same moment never
choose the same one, and it is tried before it is given out, so that other programs' ports are left alone.
The range is below the kernel's ephemeral ports (32768 and up), which an outgoing connection may take at any
time, and above those that a gateway has in a cluster (20000 to 21023): one of a benchmark listens at them
at every address. Another checkout has a file of its own, so the search begins at a place that depends on
the folder: a port that is given out is free until its server has started, and two checkouts would choose
the same.
"""

import contextlib
import fcntl
import hashlib
import itertools
import json
import socket
from collections.abc import Iterator
from pathlib import Path

from cluster.errors import ClusterError

FIRST, LAST = 21100, 29999
_STRIDE = 100
"""Distance between two places where a search may begin."""


@contextlib.contextmanager
def _registry(file: Path) -> Iterator[dict[str, str]]:
    """The reservations, port → holder, locked while the block runs and written back after it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.seek(0)
        taken: dict[str, str] = json.loads(handle.read() or "{}")
        yield taken
        handle.seek(0)
        handle.truncate()
        json.dump(taken, handle)


def reserve(file: Path, holder: Path, count: int) -> list[int]:
    """`count` ports of the holder, a folder: the ones that it has, or new ones.

    The folder is made where it is not there yet: ports of one that has gone are given to others.
    """
    holder.mkdir(parents=True, exist_ok=True)
    with _registry(file) as taken:
        mine = [int(port) for port, owner in taken.items() if owner == str(holder)]
        for port, owner in list(taken.items()):
            if not Path(owner).exists() and owner != str(holder):
                del taken[port]
        begin = _begin(file)
        every = itertools.chain(range(begin, LAST + 1), range(FIRST, begin))
        candidates = (number for number in every if str(number) not in taken and is_free(number))
        new = list(itertools.islice(candidates, max(0, count - len(mine))))
        mine += new
        if len(mine) < count:
            raise ClusterError(f"no free port between {FIRST} and {LAST}: stop other control planes")
        taken.update({str(number): str(holder) for number in new})
        return sorted(mine)[:count]


def release(file: Path, holder: Path) -> None:
    """Give the holder's ports back."""
    with _registry(file) as taken:
        for port in [port for port, owner in taken.items() if owner == str(holder)]:
            del taken[port]


def holders(file: Path) -> list[Path]:
    """Everybody who holds ports."""
    with _registry(file) as taken:
        return sorted({Path(holder) for holder in taken.values()})


def _begin(file: Path) -> int:
    """Where the search for a free port begins."""
    digest = hashlib.sha256(str(file.resolve().parent).encode()).digest()
    return FIRST + int.from_bytes(digest[:4]) % ((LAST + 1 - FIRST) // _STRIDE) * _STRIDE


def is_free(port: int) -> bool:
    """Whether nobody listens at a port of the loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
