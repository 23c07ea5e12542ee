"""Keeps HAProxy as the cache says it should be: level-triggered, one service after the other."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from daybreak.api.common.resource import Resource
from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.gateway.agent.wanted import Claims, Group, Ports, Wanted, wanted
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.hold.model_backends import ModelBackends
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Service
from daybreak.kube.cache import Cache, Key
from daybreak.kube.resources import PODS

TICK_SECONDS = 1.0
"""How often what failed is tried again, and servers whose last stream has ended are removed."""

KEYS_SECONDS = 10.0
"""How often the files with API keys are read again."""
REPLACED = "The gateway is being replaced: send the request again."
"""Told to who is still held when the gateway's time is up."""

log = structlog.get_logger("daybreak.gateway")


@dataclass(frozen=True)
class _Told:
    """What HAProxy has been told of a slot; None: not, or not to the end."""

    uid: str
    name: str
    service: Service | None = None
    servers: tuple[Server, ...] | None = None
    groups: tuple[Group, ...] | None = None


class Programmer:
    """Programs the data path.

    Args:
        cache: LLMServices and their Ray pods.
        gateway: The data path; started before `run` is.
        namespace: The namespace of all services.
        ports: Where Ray pods listen for requests.
        keys: Reads API keys.
        on_told: Called after HAProxy was told something: True when a service was taken away.
    """

    def __init__(
        self,
        cache: Cache,
        gateway: Gateway,
        *,
        namespace: str,
        ports: Ports,
        keys: KeyFiles,
        on_told: Callable[[bool], None],
    ) -> None:
        self._cache = cache
        self._gateway = gateway
        self._namespace = namespace
        self._ports = ports
        self._keys = keys
        self._keyed: set[str] = set()
        """Services with API keys: their files change without a word."""
        self._on_told = on_told
        self._claims = Claims()
        self._backends = ModelBackends(gateway)
        self._told: dict[int, _Told] = {}
        self._names: set[str] = set()
        self._failed: set[str] = set()
        self._failed_slots: set[int] = set()
        self._lingering: set[int] = set()
        self._warned: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()
        self._refusing = False
        self._keys_read = time.monotonic()
        self.completed = float("inf")
        """When every service that was known at the start had been programmed, or tried; monotonic clock."""
        cache.subscribe(self._changed)

    async def run(self) -> None:
        """Program until cancelled."""
        self._names.update(key.name for key in self._cache.keys(LLM_SERVICES))
        ticked = time.monotonic()
        while True:
            changed, self._names = self._names, set()
            for name in changed:
                for slot in self._read(name):
                    await self._bring(slot)
            if self.completed == float("inf"):
                await self._complete()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._wake.wait()
            # Before the next look at who has changed, so that no change is slept through.
            self._wake.clear()
            if time.monotonic() - ticked >= TICK_SECONDS:
                await self._tick()
                ticked = time.monotonic()

    async def _complete(self) -> None:
        try:
            await self._gateway.told_all()
        except RuntimeApiError as error:
            log.warning("HAProxy was not told that it knows all", error=str(error))
            self._names |= set(self._claims.names())
            return
        self.completed = time.monotonic()

    async def refuse(self) -> None:
        """Refuse whatever is held or comes, from now on: the gateway's time is up."""
        self._refusing = True
        for slot, told in list(self._told.items()):
            if told.service is not None:
                refused = replace(told.service, gate=Gate.FAILED, reason=REPLACED)
                await self._gateway.set_service(slot, refused)

    async def _tick(self) -> None:
        self._names |= self._failed
        self._failed.clear()
        if time.monotonic() - self._keys_read >= KEYS_SECONDS:
            self._keys_read = time.monotonic()
            self._names |= self._keyed
            self._wake.set()
        slots, self._failed_slots = self._failed_slots, set()
        for slot in slots:
            await self._bring(slot)
        for slot in list(self._lingering):
            try:
                if not await self._gateway.remove_left_servers(slot):
                    self._lingering.discard(slot)
            except RuntimeApiError as error:
                log.warning("servers were not removed", slot=slot, error=str(error))
            except Exception as error:  # one service must never stop the others
                log.exception("servers were not removed", slot=slot, error=str(error))
        try:
            if await self._backends.free():
                # Perhaps for a service that found none left.
                self._names |= self._claims.names()
                self._wake.set()
        except RuntimeApiError as error:
            log.warning("backends of models were not freed", error=str(error))

    def _changed(self, _: Resource, key: Key) -> None:
        if key.namespace == self._namespace:
            self._names.add(key.name)
            self._wake.set()

    def _read(self, name: str) -> list[int]:
        """Look at what the cache has of a service. Returns the slots that may have to be changed."""
        key, config = Key(self._namespace, name), self._gateway.config
        try:
            manifest = self._cache.get(LLM_SERVICES, key)
            pods = self._cache.of_service(PODS, key)
            claim = None
            self._keyed.discard(name)
            if manifest is not None:
                digests = self._keys.digests(manifest)
                claim = wanted(manifest, pods, self._ports, digests)
                if digests:
                    self._keyed.add(name)
        except Exception as error:  # one service must never stop the others
            log.exception("a service cannot be read", service=name, error=str(error))
            self._failed.add(name)
            return []
        if claim is not None and not config.first_port <= claim.port <= config.last_port:
            self._warn(name, f"port {claim.port} is not one of {config.first_port} to {config.last_port}")
            claim = None
        ports = self._claims.put(name, claim)
        if claim is not None:
            holder = self._claims.holder(claim.port)
            if holder is not None and holder.service.name != name:
                self._warn(name, f"port {claim.port} belongs to {holder.service.name}")
        return sorted(port - config.first_port for port in ports)

    def _warn(self, name: str, why: str) -> None:
        if (name, why) not in self._warned:
            self._warned.add((name, why))
            log.warning("a service is not served as it should be", service=name, why=why)

    async def _bring(self, slot: int) -> None:
        try:
            await self._program(slot)
        except RuntimeApiError as error:
            log.warning("a service could not be programmed", slot=slot, error=str(error))
            self._failed_slots.add(slot)
        except Exception as error:  # one service must never stop the others
            log.exception("a service could not be programmed", slot=slot, error=str(error))
            self._failed_slots.add(slot)

    async def _program(self, slot: int) -> None:
        """Make HAProxy's slot what it should be now."""
        if self._refusing:
            return
        want = self._claims.holder(self._gateway.config.first_port + slot)
        told = self._told.get(slot)
        if told is not None and (want is None or want.uid != told.uid):
            # Another service: who is held for the one before must not reach it.
            await self._gateway.unset_service(slot)
            self._backends.keep(slot, ())
            self._lingering.add(slot)
            del self._told[slot]
            told = None
            self._on_told(True)
            log.info("a service is not served any more", slot=slot)
        if want is None:
            return
        if told is None:
            told = self._told[slot] = _Told(want.uid, want.service.name)
        # What closes comes first and what opens comes last: the gate is never open for servers of yesterday.
        service = self._with_backends(slot, want)
        opens = service.gate is Gate.OPEN
        if not opens:
            told = await self._tell(slot, told, service)
        if told.servers != want.servers:
            self._lingering.add(slot)
            await self._gateway.set_servers(slot, want.servers)
            told = self._told[slot] = replace(told, servers=want.servers)
        if told.groups != want.groups:
            for group in want.groups:
                await self._backends.set(slot, group)
            told = self._told[slot] = replace(told, groups=want.groups)
        if opens:
            told = await self._tell(slot, told, service)
        self._backends.keep(slot, [group.name for group in want.groups])

    def _with_backends(self, slot: int, want: Wanted) -> Service:
        """The service with a backend for each of its models, as far as there are backends."""
        numbers = {group.name: self._backends.number(slot, group.name) for group in want.groups}
        if short := [name for name, number in numbers.items() if number is None]:
            self._warn(
                want.service.name, f"no backend is free for {', '.join(short)}: Serve's proxy is asked"
            )
        found = ((model, numbers[group.name]) for group in want.groups for model in group.models)
        return replace(
            want.service, backends={model: number for model, number in found if number is not None}
        )

    async def _tell(self, slot: int, told: _Told, service: Service) -> _Told:
        if told.service == service:
            return told
        self._told[slot] = replace(told, service=None)
        await self._gateway.set_service(slot, service)
        self._told[slot] = replace(told, service=service)
        self._on_told(False)
        log.info("gate", service=service.name, slot=slot, gate=service.gate.value, epoch=service.epoch)
        return self._told[slot]
