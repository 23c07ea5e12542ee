"""The servers of one slot: added while HAProxy runs, and removed without cutting a stream."""

from collections.abc import Collection
from dataclasses import dataclass

from daybreak.gateway.runtime import RuntimeApi, RuntimeApiError

CHECK = "check inter 2s fastinter 250ms downinter 250ms rise 1 fall 2 pool-purge-delay 1s"
"""Every 250 ms while it is down, so that a woken server is used at once; every 2 s once it is up. Connections
that nobody uses are closed after a second or two: a server with such connections cannot be removed."""


@dataclass(frozen=True, order=True)
class Address:
    """Where a Serve proxy listens."""

    host: str
    port: int

    @property
    def server(self) -> str:
        """The name of the server in HAProxy."""
        return f"{self.host.replace(':', '_')}-{self.port}"

    @property
    def text(self) -> str:
        """As HAProxy writes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Servers:
    """Keeps the servers of all slots as they are wanted."""

    def __init__(self, api: RuntimeApi) -> None:
        self._api = api
        self._known: dict[int, dict[Address, bool]] = {}
        """Servers that HAProxy has, by slot: True is in use, False is on its way out."""

    def forget(self) -> None:
        """HAProxy was started anew: it has none."""
        self._known.clear()

    async def set(self, slot: int, addresses: Collection[Address]) -> None:
        """Make the slot's servers these. Streams of others go on until they end. Raises RuntimeApiError."""
        known = self._known.setdefault(slot, {})
        for address in sorted(set(addresses)):
            if known.get(address) is True:
                continue
            name = f"s{slot}/{address.server}"
            if address not in known:
                await self._api.expect(f"add server {name} {address.text} {CHECK}", "New server registered")
                known[address] = False
                await self._api.expect(f"enable health {name}")
            # It is up once it has answered, not before.
            await self._api.expect_all(f"set server {name} state ready", f"set server {name} health down")
            known[address] = True
        for address in [address for address, used in known.items() if used and address not in addresses]:
            await self._api.expect(f"set server s{slot}/{address.server} state maint")
            known[address] = False
        await self.remove_left(slot)

    async def remove_left(self, slot: int) -> bool:
        """Remove the servers whose last stream has ended. Returns whether any is left on its way out."""
        known = self._known.get(slot, {})
        for address in [address for address, used in known.items() if not used]:
            answer = await self._api.command(f"del server s{slot}/{address.server}")
            if "Server deleted" in answer:
                del known[address]
            elif "still has" not in answer:
                raise RuntimeApiError(f"del server s{slot}/{address.server}: {answer}")
        return not all(known.values())
