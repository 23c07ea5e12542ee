"""Which model has which of HAProxy's backends for models: those of services with several models."""

from collections.abc import Collection

from daybreak.gateway.agent.wanted import Group
from daybreak.gateway.hold.process import Gateway


class ModelBackends:
    """Gives out backends by number, and takes them back when the last of their requests has ended."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._free = list(reversed(range(gateway.config.model_backends)))
        self._given: dict[tuple[int, str], int] = {}
        """The backend of a slot's worker group."""
        self._ending: set[int] = set()
        """Backends that nobody has any more, and that may still have requests."""

    def number(self, slot: int, group: str) -> int | None:
        """The backend of a slot's worker group, given out if need be; None: none is free."""
        key = (slot, group)
        if key not in self._given and self._free:
            self._given[key] = self._free.pop()
        return self._given.get(key)

    async def set(self, slot: int, group: Group) -> None:
        """Make the servers of the group's backend what they should be. Raises RuntimeApiError."""
        number = self.number(slot, group.name)
        if number is not None:
            await self._gateway.set_model_servers(number, group.servers)

    def keep(self, slot: int, groups: Collection[str]) -> None:
        """Let go of the slot's backends of other groups."""
        for key in [key for key in self._given if key[0] == slot and key[1] not in groups]:
            self._ending.add(self._given.pop(key))

    async def free(self) -> bool:
        """Take back the backends whose last request has ended. Returns whether there was one.

        Raises RuntimeApiError.
        """
        ended = [number for number in sorted(self._ending) if await self._gateway.end_model_backend(number)]
        self._ending.difference_update(ended)
        self._free.extend(ended)
        return bool(ended)
