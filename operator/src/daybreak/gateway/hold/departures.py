"""Clients that left while they were held, where HAProxy does not notice it itself.

HAProxy 2.8 does not hear of each client that leaves whose whole request it has read: not where the
connection had a request before, for one. So the kernel is asked: for each connection where there are few,
and for the list of all where there are many. To read the list takes about 10 ms, however short it is, since
the kernel walks a large table for it: that is why Python does it, in a thread, and not HAProxy, in which
every stream would stand still meanwhile.
"""

import asyncio
import sys
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

from daybreak.gateway.haproxy.runtime import RuntimeApi
from daybreak.gateway.hold.diag import ESTABLISHED, SockDiag

TCP = Path("/proc/net/tcp")
TCP6 = Path("/proc/net/tcp6")

_ESTABLISHED = "01"
_FEW = 256
"""Connections that are sooner asked for one by one."""

_BATCH = 500
"""Numbers that surely fit one command."""

Connection = tuple[str, str]
"""The client's address and port, and our port, as the kernel writes them."""


@lru_cache(maxsize=10_000)
def as_the_kernel_writes(address: str, file: Path) -> str:
    """An address as that file has it: words of four bytes, in the order of the machine, in hexadecimal."""
    found = ip_address(address)
    if file == TCP6 and isinstance(found, IPv4Address):
        found = IPv6Address(f"::ffff:{found}")
    words = [found.packed[at : at + 4] for at in range(0, len(found.packed), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return b"".join(words).hex().upper()


def connections(file: Path) -> dict[Connection, str]:
    """The state of each connection: two hexadecimal digits. Raises OSError."""
    found = {}
    for line in file.read_text().splitlines()[1:]:
        _, here, far, state, _ = line.split(maxsplit=4)
        found[far, here.rpartition(":")[2]] = state
    return found


class Departures:
    """Tells HAProxy which of its held clients have left."""

    def __init__(self, api: RuntimeApi, file: Path) -> None:
        self._api = api
        self._file = file

    async def look(self, backend: str = "") -> int:
        """Look at the requests that are held now, at one gate or all. Returns how many have left.

        Raises RuntimeApiError and OSError.
        """
        rows = (await self._api.json(f"daybreak held {backend}".rstrip()))["held"]
        if not rows:
            return 0
        left = self._left_of_few(rows) if len(rows) <= _FEW else None
        if left is None:
            left = await asyncio.to_thread(self._left, rows)
        for at in range(0, len(left), _BATCH):
            numbers = ",".join(map(str, left[at : at + _BATCH]))
            await self._api.expect(f"daybreak departed {numbers}", "ok")
        return len(left)

    def _left_of_few(self, rows: Sequence[Sequence[Any]]) -> list[int] | None:
        """None where the kernel cannot be asked for one connection."""
        try:
            diag = SockDiag()
        except OSError:
            return None
        try:
            return [
                number
                for number, address, port, our_address, our_port in rows
                if diag.state((address, port), (our_address, our_port)) != ESTABLISHED
            ]
        except OSError:
            return None
        finally:
            diag.close()

    def _left(self, rows: Sequence[Sequence[Any]]) -> list[int]:
        held = {
            number: (f"{as_the_kernel_writes(address, self._file)}:{port:04X}", f"{our_port:04X}")
            for number, address, port, _, our_port in rows
        }
        states = connections(self._file)
        if any(connection not in states for connection in held.values()):
            # The list is no picture of one moment: while it is read, one that is there may be passed over.
            states = connections(self._file) | states
        return [number for number, connection in held.items() if states.get(connection) != _ESTABLISHED]
