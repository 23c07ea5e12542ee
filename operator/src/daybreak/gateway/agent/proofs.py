"""Which replicas look at fields of bodies: each is asked, and believed as long as its pod is there.

A replica of the Ray images answers at a path that only its list of fields has (`fields.guard_path`). One of
another version has another path; other servers have none. HAProxy checks replicas at that path as long as it
leaves the look at bodies to them, and sends what nobody has looked at below it. So one that does not look
gets nothing of that, whatever is believed here.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

import structlog

from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy.connections import close_connection
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Slot
from daybreak.gateway.wanted.gates import WantedGate

ASK_SECONDS = 1.0
"""Time between the first two questions to one that has not answered yet."""
_SELDOM = 16
"""Such times between two questions in the end: a pod of a later stage of a pipeline never answers."""
_ANSWER_SECONDS = 2.0
_AT_ONCE = 32
"""Replicas that are asked at a time."""

log = structlog.get_logger("daybreak.gateway")

Replica = tuple[str, str, int]
"""The UID of its pod, its address and its port."""


class Proofs:
    """Asks the replicas that it is told of.

    Args:
        on_change: Called with a service's name when something was found out of it.
        ask: Asks one replica: True, it looks at bodies; False, it does not; None, nobody knows yet.
    """

    def __init__(
        self,
        on_change: Callable[[str], None],
        ask: Callable[[str, int], Awaitable[bool | None]] | None = None,
    ) -> None:
        self._on_change = on_change
        self._ask = ask or _ask
        self._services: dict[str, frozenset[Replica]] = {}
        self._found: dict[Replica, bool] = {}
        self._rounds: Counter[Replica] = Counter()
        """How often each could have been asked that has not answered."""
        self._new = asyncio.Event()

    def of(self, server: Server) -> bool | None:
        """What is known of a replica; None: nothing yet."""
        return self._found.get((server.pod, server.host, server.port))

    def watch(self, service: str, gates: Collection[WantedGate]) -> None:
        """Ask the replicas of a service, and forget those that have gone; no gates: it has gone."""
        now = frozenset(
            (server.pod, server.host, server.port)
            for gate in gates
            if _may_be_guarded(gate.slot)
            for server in gate.servers
            if not server.backup and server.pod
        )
        for gone in self._services.pop(service, frozenset()) - now:
            self._found.pop(gone, None)
            self._rounds.pop(gone, None)
        if now:
            self._services[service] = now
        if now - self._found.keys():
            self._new.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        limit = asyncio.Semaphore(_AT_ONCE)
        while True:
            await self._new.wait()
            unknown = {
                replica: name
                for name, replicas in self._services.items()
                for replica in replicas
                if replica not in self._found
            }
            if not unknown:
                self._new.clear()
                continue
            self._rounds.update(unknown.keys())
            due = [each for each in unknown.items() if _due(self._rounds[each[0]])]
            await asyncio.gather(*(self._look(limit, replica, name) for replica, name in due))
            await asyncio.sleep(ASK_SECONDS)

    async def _look(self, limit: asyncio.Semaphore, replica: Replica, name: str) -> None:
        async with limit:
            _, host, port = replica
            found = await self._ask(host, port)
        if found is not None and replica in self._services.get(name, ()):
            self._found[replica] = found
            log.info("a replica was asked whether it looks at bodies", service=name, host=host, looks=found)
            self._on_change(name)


def with_guard(gate: WantedGate, proofs: Proofs, before: Slot | None) -> WantedGate:
    """A gate whose bodies are left to its replicas, where all of them look at bodies; else as it is.

    Serve's proxies do not look, so they are none of its servers then: a request waits for a replica. It stays
    so until a replica says that it does not look, also while there is none.

    Args:
        before: The gate as HAProxy has it; None: nobody knows. Where bodies are left to replicas already, one
            that has not answered yet is none that HAProxy has found well.
    """
    if not _may_be_guarded(gate.slot):
        return gate
    replicas = tuple(server for server in gate.servers if not server.backup)
    found = [proofs.of(server) for server in replicas]
    one_of_each = math.ceil(len(replicas) / gate.pods)
    sure = (before is not None and before.guarded) or 0 < one_of_each <= found.count(True)
    if not sure or False in found:
        return gate
    return replace(gate, slot=replace(gate.slot, guarded=True, check=fields.guard_path()), servers=replicas)


def _due(rounds: int) -> bool:
    """Whether to ask in this round: the first, second, fourth, eighth, and then every so many."""
    return rounds & (rounds - 1) == 0 or rounds % _SELDOM == 0


def _may_be_guarded(slot: Slot) -> bool:
    """Whether its replicas can be those of the Ray images, which have one list of fields for all services."""
    return slot.replicas_listen and not (slot.paths or slot.extra or slot.check)


async def _ask(host: str, port: int) -> bool | None:
    """Ask a replica. One that ends, or is not there yet, has not answered."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                head = f"GET {fields.guard_path()} HTTP/1.1\r\nHost: daybreak-gateway\r\nConnection: close"
                writer.write(f"{head}\r\n\r\n".encode())
                line = await reader.readline()
            finally:
                close_connection(writer)
    except (OSError, TimeoutError, ValueError):
        return None
    words = line.split()
    status = words[1] if len(words) > 1 and words[0].startswith(b"HTTP/1.") else b""
    # 503: it is ending, or its engine has just died.
    return None if status in (b"", b"503") else status == b"200"
