"""The servers of HAProxy's backends: added while HAProxy runs, and removed without cutting a stream."""

import zlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError

CHECK = (
    "check inter 20s fastinter 250ms downinter 250ms rise 1 fall 3 "
    "observe layer4 error-limit 1 on-error mark-down pool-purge-delay 1s"
)
"""Every 250 ms while it is down, so that a woken server is used at once; every 20 s once it is up: of 1,000
services, every 10 s is 2 % of a core (docs/decisions/0066). A busy event loop may be late: only the third
failure counts, each looked at again after 250 ms. A server that refuses a connection is down until a check
finds it well: the request goes to another one, or to the backup, and those behind it need not try.
Connections that nobody uses are closed after a second or two: a server with such connections cannot be
removed.
"""


@dataclass(frozen=True, order=True, slots=True)
class Server:
    """Where requests can be sent: a replica of a model, or the Serve proxy of a Ray head."""

    host: str
    port: int
    backup: bool = False
    """Whether it is used only while no other server of its backend is up."""
    max_connections: int = 0
    """Requests that it gets at a time (HAProxy's `maxconn`); more wait in HAProxy. 0: any number."""
    weight: int = 1
    """Its share of the requests, compared with other servers of its backend."""
    cluster: str = field(default="", compare=False)
    """Its RayCluster; empty: nobody has said it."""
    pod: str = field(default="", compare=False)
    """UID of its pod; empty: nobody has said it."""

    @property
    def name(self) -> str:
        """Its name in HAProxy."""
        return f"{self.host.replace(':', '_')}-{self.port}{'-backup' if self.backup else ''}"

    @property
    def text(self) -> str:
        """Its address as HAProxy writes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def words(self) -> str:
        """Its address and settings, as in HAProxy's `add server`.

        The id follows from the address, so that two gateways hash a request to the same server.
        """
        number = zlib.crc32(self.text.encode()) % (2**31 - 1) + 1
        limit = f" maxconn {self.max_connections}" if self.max_connections else ""
        weight = f" weight {self.weight}" if self.weight != 1 else ""
        return f"{self.text} id {number} {CHECK}{limit}{weight}{' backup' if self.backup else ''}"


_FIELDS = {"be_name": 1, "srv_name": 3, "srv_addr": 4, "srv_admin_state": 6, "srv_uweight": 7, "srv_port": 18}
"""Columns of HAProxy's `show servers state`."""
_UNTOLD = -1
"""In place of a limit that HAProxy does not tell."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A server that HAProxy has."""

    server: Server
    used: bool
    """False: it is on its way out."""


class Servers:
    """Keeps the servers of all backends as they are wanted."""

    def __init__(self, api: RuntimeApi) -> None:
        self._api = api
        self._known: dict[str, dict[str, _Known]] = {}
        """Servers that HAProxy has, by backend and name."""
        self.moved: set[str] = set()
        """Backends whose RayClusters are others than was told last: HAProxy knows nothing of them."""

    def forget(self) -> None:
        """HAProxy was started anew: it has none."""
        self._known.clear()

    def clusters(self, backend: str) -> tuple[str, ...] | None:
        """The RayClusters that a backend's requests go to, or are still at; None: not all are known."""
        found = {one.server.cluster for one in self._known.get(backend, {}).values()}
        return None if "" in found else tuple(sorted(found))

    async def read_back(self) -> Collection[str]:
        """Ask a HAProxy that somebody else has programmed. Returns the backends that have servers.

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
        """Make the backend's servers these; streams of others go on to their end. Raises RuntimeApiError."""
        before, known = self.clusters(backend), self._known.setdefault(backend, {})
        try:
            await self._set(backend, known, servers)
        finally:
            self._note_clusters(backend, before)

    async def _set(self, backend: str, known: dict[str, _Known], servers: Collection[Server]) -> None:
        for server in sorted(set(servers)):
            await self._use(backend, known, server)
        wanted = {server.name for server in servers}
        for name in [name for name, one in known.items() if one.used and name not in wanted]:
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
        # Whoever has added it may have ended before it came to this.
        await self._api.expect(f"enable health {path}")
        # It is up once it has answered, not before.
        await self._api.expect_all(f"set server {path} state ready", f"set server {path} health down")
        known[server.name] = _Known(server, used=True)

    async def remove_left(self, backend: str) -> bool:
        """Remove the servers whose last stream has ended. Returns whether any is left on its way out."""
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
