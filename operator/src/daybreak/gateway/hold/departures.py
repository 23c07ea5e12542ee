"""Detection of clients that left while their requests were held, in cases that HAProxy misses.

HAProxy 2.8 does not notice every client that leaves after HAProxy has read its whole request. It misses, for
example, clients whose connection had an earlier request. Therefore the agent queries the kernel: for single
connections if there are few, and for the list of all connections if there are many. Reading the list takes
about 10 ms, however short it is, because the kernel walks a large table. Python does it in a thread, because
in HAProxy it would block every stream.
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
"""Maximum number of connections that are queried one by one."""

_BATCH = 500
"""Maximum number of request numbers that fit one command."""

Connection = tuple[str, str]
"""Address and port of the client, and the gateway's port, as the kernel writes them."""


@lru_cache(maxsize=10_000)
def as_the_kernel_writes(address: str, file: Path) -> str:
    """Return an address in the format of the file.

    Its four-byte words have the machine's byte order and are written in hexadecimal.
    """
    found = ip_address(address)
    if file == TCP6 and isinstance(found, IPv4Address):
        found = IPv6Address(f"::ffff:{found}")
    words = [found.packed[at : at + 4] for at in range(0, len(found.packed), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return b"".join(words).hex().upper()


def connections(file: Path) -> dict[Connection, str]:
    """Return the state of each connection as two hexadecimal digits. Raises OSError."""
    found = {}
    for line in file.read_text().splitlines()[1:]:
        _, here, far, state, _ = line.split(maxsplit=4)
        found[far, here.rpartition(":")[2]] = state
    return found


class Departures:
    """Reporter of departed held clients to HAProxy."""

    def __init__(self, api: RuntimeApi, file: Path) -> None:
        self._api = api
        self._file = file

    async def look(self, backend: str = "") -> int:
        """Check the held requests of one gate or of all gates. Returns the number of departed clients.

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
        """Return the departed requests, or None if the kernel cannot be queried for one connection."""
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
            # The list is not atomic: while it is read, an existing connection may be missed.
            states = connections(self._file) | states
        return [number for number, connection in held.items() if states.get(connection) != _ESTABLISHED]
