"""Loopback ports for control planes that run side by side.

A port is reserved in one file under a lock, so that two control planes that start at the same moment never
choose the same one. A port is tested before it is reserved, so that ports of other programs are left alone.
The range is below the kernel's ephemeral ports (32768 and up), which outgoing connections may use at any
time. It is above the ports of a gateway in a cluster (20000 to 21023): the gateway of a benchmark listens at
them on every address.

Each checkout has its own file. A reserved port is free until its server has started, so two checkouts could
choose the same one. The search therefore begins at a position that depends on the folder.
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
"""Distance between two possible start positions of a search."""


@contextlib.contextmanager
def _registry(file: Path) -> Iterator[dict[str, str]]:
    """Yield the reservations (port to holder), locked during the block and written afterwards."""
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
    """Return `count` ports of the holder, a folder: the ones that it has, or new ones.

    The folder is created if missing: ports of deleted folders are given to other holders.
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
    """Release the holder's ports."""
    with _registry(file) as taken:
        for port in [port for port, owner in taken.items() if owner == str(holder)]:
            del taken[port]


def holders(file: Path) -> list[Path]:
    """Return all holders of ports."""
    with _registry(file) as taken:
        return sorted({Path(holder) for holder in taken.values()})


def _begin(file: Path) -> int:
    """Return the first port of a search for free ports."""
    digest = hashlib.sha256(str(file.resolve().parent).encode()).digest()
    return FIRST + int.from_bytes(digest[:4]) % ((LAST + 1 - FIRST) // _STRIDE) * _STRIDE


def is_free(port: int) -> bool:
    """Return True if no process listens at the port on loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
