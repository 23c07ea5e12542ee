"""Detection of replicas that check fields of bodies: each is probed, and trusted while its pod exists.

A replica of the Ray images responds at a path that is derived from its list of fields (`fields.guard_path`).
A replica of another version has another path; other servers have none. While HAProxy leaves the check of
bodies to replicas, it probes them at that path, and sends unchecked requests below it. Therefore a replica
that does not check receives no such request, even if this module is wrong.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

import structlog

from daybreak.gateway.desired.gates import DesiredGate
from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy.connections import close_connection
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Slot

ASK_SECONDS = 1.0
"""Seconds between the first two probes of a replica that has not responded yet."""
_SELDOM = 16
"""Maximum number of probe intervals between two probes: a pod of a later pipeline stage never responds."""
_ANSWER_SECONDS = 2.0
_AT_ONCE = 32
"""Maximum number of concurrent probes."""

log = structlog.get_logger("daybreak.gateway")

Replica = tuple[str, str, int]
"""UID of the pod, its address and its port."""


class Proofs:
    """Prober of replicas.

    Args:
        on_change: Callback with a service's name when a result is known.
        ask: Function that probes one replica: True: it checks bodies; False: it does not; None: unknown yet.
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
        """Number of rounds in which each replica had not responded yet."""
        self._new = asyncio.Event()

    def of(self, server: Server) -> bool | None:
        """Return the result for a replica, or None if it is unknown yet."""
        return self._found.get((server.pod, server.host, server.port))

    def watch(self, service: str, gates: Collection[DesiredGate]) -> None:
        """Probe the replicas of a service, and forget removed ones; without gates the service was removed."""
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
        """Probe until canceled."""
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
            log.info("Checked whether a replica inspects bodies", service=name, host=host, looks=found)
            self._on_change(name)


def with_guard(gate: DesiredGate, proofs: Proofs, before: Slot | None) -> DesiredGate:
    """Return a gate that leaves bodies to its replicas if all of them check bodies.

    Otherwise the gate is unchanged.

    Serve's proxies do not check, so the gate then has none of them as servers: a request waits for a replica.
    That remains so until a replica reports that it does not check, also while there is none.

    Args:
        before: Gate in HAProxy; None: unknown. If it leaves bodies to replicas already, HAProxy has not found
            a replica healthy that has not responded yet.
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
    """Return True if the round needs a probe.

    These are the first, second, fourth and eighth, and then every `_SELDOM` rounds.
    """
    return rounds & (rounds - 1) == 0 or rounds % _SELDOM == 0


def _may_be_guarded(slot: Slot) -> bool:
    """Return True if the replicas may run the Ray images, which have one list of request fields."""
    return slot.replicas_listen and not (slot.paths or slot.extra or slot.check)


async def _ask(host: str, port: int) -> bool | None:
    """Probe a replica. Returns None if it is ending or not ready yet."""
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
