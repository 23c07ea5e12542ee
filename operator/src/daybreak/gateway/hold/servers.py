"""Servers of HAProxy's backends, added at run time and removed without cutting a stream."""

import zlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError

CHECK = (
    "check inter 20s fastinter 250ms downinter 250ms rise 1 fall 3 "
    "observe layer4 error-limit 1 on-error mark-down pool-purge-delay 1s"
)
"""Health check settings of a server.

A server that is down is checked every 250 ms, so that it is used immediately after a wake. A server that is
up is checked every 20 s: with 1,000 services, every 10 s is 2 % of a core (docs/decisions/0066). A busy event
loop may respond late, so only the third failure counts, and each failure is checked again after 250 ms. A
server that refuses a connection is down until a health check succeeds: the request goes to another server or
to the backup, and later requests need not try. Idle connections are closed after one or two seconds, because
a server with such connections cannot be removed.
"""


@dataclass(frozen=True, order=True, slots=True)
class Server:
    """Destination of requests: a replica of a model, or the Serve proxy of a Ray head."""

    host: str
    port: int
    backup: bool = False
    """True if the server is used only while no other server of its backend is up."""
    max_connections: int = 0
    """Maximum number of concurrent requests (HAProxy's `maxconn`); further requests wait in HAProxy. 0 is
    unlimited."""
    weight: int = 1
    """Share of the requests, relative to other servers of the backend."""
    cluster: str = field(default="", compare=False)
    """RayCluster of the server; empty if unknown."""
    pod: str = field(default="", compare=False)
    """UID of the server's pod; empty if unknown."""

    @property
    def name(self) -> str:
        """Name of the server in HAProxy."""
        return f"{self.host.replace(':', '_')}-{self.port}{'-backup' if self.backup else ''}"

    @property
    def text(self) -> str:
        """Address of the server in HAProxy's notation."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def words(self) -> str:
        """Address and settings, as in HAProxy's `add server`.

        The id is derived from the address, so that two gateways hash a request to the same server.
        """
        number = zlib.crc32(self.text.encode()) % (2**31 - 1) + 1
        limit = f" maxconn {self.max_connections}" if self.max_connections else ""
        weight = f" weight {self.weight}" if self.weight != 1 else ""
        return f"{self.text} id {number} {CHECK}{limit}{weight}{' backup' if self.backup else ''}"


_FIELDS = {"be_name": 1, "srv_name": 3, "srv_addr": 4, "srv_admin_state": 6, "srv_uweight": 7, "srv_port": 18}
"""Columns of HAProxy's `show servers state`."""
_UNTOLD = -1
"""Placeholder for a limit that HAProxy does not report."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Server that exists in HAProxy."""

    server: Server
    used: bool
    """False if the server is being removed."""


class Servers:
    """Reconciler of the servers of all backends with the desired ones."""

    def __init__(self, api: RuntimeApi) -> None:
        self._api = api
        self._known: dict[str, dict[str, _Known]] = {}
        """Servers that exist in HAProxy, by backend and name."""
        self.moved: set[str] = set()
        """Backends whose RayClusters have changed since the last report. HAProxy does not know
        RayClusters."""

    def forget(self) -> None:
        """Forget all servers, because a restarted HAProxy has none."""
        self._known.clear()

    def clusters(self, backend: str) -> tuple[str, ...] | None:
        """Return the RayClusters of a backend's current requests, or None if not all are known."""
        found = {one.server.cluster for one in self._known.get(backend, {}).values()}
        return None if "" in found else tuple(sorted(found))

    async def read_back(self) -> Collection[str]:
        """Read the servers of a HAProxy that a previous agent configured.

        Returns the backends that have servers.

        Raises RuntimeApiError.
        """
        self._known.clear()
        for line in (await self._api.command("show servers state")).splitlines():
            words = line.split(" ")
            if line.startswith("#") or len(words) <= max(_FIELDS.values()):
                continue
            row = {name: words[at] for name, at in _FIELDS.items()}
            name, weight = row["srv_name"], int(row["srv_uweight"])
            server = Server(row["srv_addr"], int(row["srv_port"]), name.endswith("-backup"), _UNTOLD, weight)
            if name == server.name:
                used = row["srv_admin_state"] == "0"
                self._known.setdefault(row["be_name"], {})[name] = _Known(server, used)
        return sorted(self._known)

    async def set(self, backend: str, servers: Collection[Server]) -> None:
        """Replace the servers of a backend; streams of removed servers continue to their end.

        Raises RuntimeApiError.
        """
        before, known = self.clusters(backend), self._known.setdefault(backend, {})
        try:
            await self._set(backend, known, servers)
        finally:
            self._note_clusters(backend, before)

    async def _set(self, backend: str, known: dict[str, _Known], servers: Collection[Server]) -> None:
        for server in sorted(set(servers)):
            await self._use(backend, known, server)
        desired = {server.name for server in servers}
        for name in [name for name, one in known.items() if one.used and name not in desired]:
            await self._api.expect(f"set server {backend}/{name} state maint")
            known[name] = replace(known[name], used=False)
        await self.remove_left(backend)

    async def _use(self, backend: str, known: dict[str, _Known], server: Server) -> None:
        path, there = f"{backend}/{server.name}", known.get(server.name)
        if there is not None:
            there = known[server.name] = replace(there, server=replace(there.server, cluster=server.cluster))
        if there is not None and there.server.max_connections != server.max_connections:
            await self._api.expect(f"set maxconn server {path} {server.max_connections}")
            there = known[server.name] = replace(there, server=replace(server, weight=there.server.weight))
        if there is not None and there.server.weight != server.weight:
            await self._api.expect(f"set weight {path} {server.weight}")
            there = known[server.name] = replace(there, server=server)
        if there is not None and there.used:
            return
        if there is None:
            await self._api.expect(f"add server {path} {server.words}", "New server registered")
            known[server.name] = _Known(server, used=False)
        # The agent that added the server may have ended before this command.
        await self._api.expect(f"enable health {path}")
        # The server must pass a health check before it is up.
        await self._api.expect_all(f"set server {path} state ready", f"set server {path} health down")
        known[server.name] = _Known(server, used=True)

    async def remove_left(self, backend: str) -> bool:
        """Remove servers whose last stream has ended.

        Returns True if any removed server still has streams.
        """
        before, known = self.clusters(backend), self._known.get(backend, {})
        for name in [name for name, one in known.items() if not one.used]:
            answer = await self._api.command(f"del server {backend}/{name}")
            if "Server deleted" in answer:
                del known[name]
            elif "still has" not in answer:
                raise RuntimeApiError(f"del server {backend}/{name}: {answer}")
        self._note_clusters(backend, before)
        return not all(one.used for one in known.values())

    def _note_clusters(self, backend: str, before: tuple[str, ...] | None) -> None:
        if self.clusters(backend) != before:
            self.moved.add(backend)
