"""Keeps HAProxy as the cache says it should be: level-triggered, one service after the other."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import structlog

from daybreak.api.schema.resource import Resource
from daybreak.gateway.agent.proofs import Proofs, with_guard
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.hold.model_backends import Given, ModelBackends
from daybreak.gateway.hold.process import Gateway, Known
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Policy, Slot
from daybreak.gateway.responses import responses
from daybreak.gateway.wanted import workloads
from daybreak.gateway.wanted.gates import Claims, Ports, Wanted, WantedGate, wanted
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey
from daybreak.manifests.resources import PODS

TICK_SECONDS = 1.0
"""How often what failed is tried again, and servers whose last stream has ended are removed."""

KEYS_SECONDS = 10.0
"""How often the files with API keys are read again."""
UNTOLD = -1
"""Epoch of a gate of which nothing is carried out yet."""

log = structlog.get_logger("daybreak.gateway")


@dataclass(slots=True)
class _Told:
    """What HAProxy has been told of a service; what is missing it has not been told, or not to the end."""

    uid: str
    name: str
    gates: dict[str, Slot] = field(default_factory=dict)
    """By backend."""
    servers: dict[str, tuple[Server, ...]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    """Backends that it may have been told something of."""
    removed: set[str] = field(default_factory=set)
    """Backends of models that have gone."""


class Programmer:
    """Programs the data path.

    Args:
        cache: Workloads and their pods.
        gateway: The data path; started before `run` is.
        namespace: The namespace of all services.
        ports: Where pods listen for requests.
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
        self._proofs = Proofs(self._found_out)
        self._backends = ModelBackends(gateway.config.model_backends)
        self._told: dict[int, _Told] = {}
        self._names: set[str] = set()
        self._adopted: set[int] = set()
        """Slots that the agent before us has programmed, until they have been looked at."""
        self._failed: set[str] = set()
        self._failed_slots: set[int] = set()
        self._lingering: set[str] = set()
        """Backends with servers that may be on their way out."""
        self._warned: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()
        self._refusing = False
        self._keys_read = time.monotonic()
        self.completed = float("inf")
        """When every service that was known at the start had been programmed, or tried; monotonic clock."""
        cache.subscribe(self._changed)

    async def adopt(self) -> None:
        """Take over what HAProxy knows from the agent before us. Called before `run`. Raises RuntimeApiError.

        All of it is told again, which changes nothing where nothing has changed; what is not wanted any more
        is taken away.
        """
        known, with_servers = await self._gateway.read_back()
        gates: dict[int, list[Known]] = {}
        for gate in known:
            slot = gate.port - self._gateway.config.first_port
            told = self._told.setdefault(slot, _Told(gate.uid, gate.service))
            if gate.uid != told.uid:
                told.uid = ""  # half of one service and half of another: nobody's, so all of it goes
            told.touched.add(gate.backend)
            if gate.gone:
                told.removed.add(gate.backend)
            gates.setdefault(slot, []).append(gate)
        for slot, found in gates.items():
            self._backends.adopt(slot, found)
        self._backends.adopt_ending(with_servers)
        self._lingering.update(with_servers)
        self._adopted = set(gates)
        log.info("HAProxy was found programmed", gates=len(known))

    async def run(self) -> None:
        """Program until cancelled."""
        asking = asyncio.create_task(self._proofs.run())
        try:
            await self._run()
        finally:
            asking.cancel()

    async def _run(self) -> None:
        self._names.update(each.label for each in workloads.owners(self._cache, self._namespace))
        ticked = time.monotonic()
        while True:
            changed, self._names = self._names, set()
            for name in changed:
                for slot in self._read(name):
                    await self._bring(slot)
            for slot in self._adopted:
                await self._bring(slot)
            self._adopted.clear()
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
        reason = responses.table()["draining"].message
        for told in list(self._told.values()):
            for backend, slot in list(told.gates.items()):
                await self._gateway.set_gate(backend, replace(slot, gate=Gate.FAILED, reason=reason))

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
        for backend in list(self._lingering):
            with self._tolerant("servers were not removed", backend):
                if not await self._gateway.remove_left_servers(backend):
                    self._lingering.discard(backend)
        for backend in list(self._backends.ending):
            with self._tolerant("a backend was not freed", backend):
                await self._free(backend)
        for slot, _, backend in self._backends.leaving():
            told = self._told.get(slot)
            if told is not None and backend in told.removed:
                with self._tolerant("a backend was not freed", backend):
                    await self._let_go(told, backend)

    async def _let_go(self, told: _Told, backend: str) -> None:
        """Forget a model that has gone, once its last request has ended."""
        if await self._gateway.empty(backend):
            await self._gateway.unset_gate(backend)
            told.removed.discard(backend)
            told.touched.discard(backend)
            self._freed(backend)
            self._on_told(True)

    async def _free(self, backend: str) -> None:
        if await self._gateway.empty(backend):
            self._freed(backend)

    def _freed(self, backend: str) -> None:
        self._backends.ended(backend)
        # Perhaps for a service that found none left.
        self._names |= self._claims.names()
        self._wake.set()

    @contextlib.contextmanager
    def _tolerant(self, what: str, backend: str) -> Iterator[None]:
        """What fails is tried again: one service must never stop the others."""
        try:
            yield
        except RuntimeApiError as error:
            log.warning(what, backend=backend, error=str(error))
        except Exception as error:
            log.exception(what, backend=backend, error=str(error))

    def _changed(self, _: Resource, owner: OwnerKey) -> None:
        if owner.namespace == self._namespace:
            self._names.add(owner.label)
            self._wake.set()

    def _found_out(self, name: str) -> None:
        self._names.add(name)
        self._wake.set()

    def _read(self, name: str) -> list[int]:
        """Look at what the cache has of a service. Returns the slots that may have to be changed."""
        owner, config = OwnerKey.of_label(self._namespace, name), self._gateway.config
        try:
            manifest = workloads.workload(self._cache, owner)
            pods = self._cache.owned_by(owner, PODS)
            claim = None
            self._keyed.discard(name)
            if manifest is not None:
                keys = self._keys.keys(manifest)
                claim = wanted(manifest, pods, self._ports, keys)
                if keys:
                    self._keyed.add(name)
        except Exception as error:  # one service must never stop the others
            log.exception("a service cannot be read", service=name, error=str(error))
            self._failed.add(name)
            return []
        if claim is not None and not config.first_port <= claim.port <= config.last_port:
            self._warn(name, f"port {claim.port} is not one of {config.first_port} to {config.last_port}")
            claim = None
        self._proofs.watch(name, claim.gates if claim is not None else ())
        ports = self._claims.put(name, claim)
        if claim is not None:
            holder = self._claims.holder(claim.port)
            if holder is not None and holder.name != name:
                self._warn(name, f"port {claim.port} belongs to {holder.name}")
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
            # Another service: requests held for the one before must not reach it.
            for backend in sorted(told.touched):
                await self._gateway.unset_gate(backend)
                self._lingering.add(backend)
            self._backends.forget(slot)
            del self._told[slot]
            told = None
            self._on_told(True)
            log.info("a service is not served any more", slot=slot)
        if want is None:
            return
        if told is None:
            told = self._told[slot] = _Told(want.uid, want.name)
        given, gates = self._gates(slot, want)
        gates = {
            backend: with_guard(gate, self._proofs, told.gates.get(backend))
            for backend, gate in gates.items()
        }
        # A request that is for a model that nobody has told of yet must not wait for all of them.
        for backend in sorted(gates.keys() - told.touched - {given.front or given.own}):
            gate = gates[backend].slot
            await self._tell(told, backend, replace(gate, gate=Gate.CLOSED, epoch=UNTOLD))
        # What closes comes first and what opens comes last: no gate is ever open for servers of yesterday.
        # The front, which lets requests through to all models, is the first to close and the last to open.
        order = sorted(gates, key=lambda backend: backend != given.front)
        for backend in order:
            if gates[backend].slot.gate is not Gate.OPEN:
                await self._tell(told, backend, gates[backend].slot)
        for backend in order:
            await self._set_servers(told, backend, gates[backend].servers)
        for backend in reversed(order):
            if gates[backend].slot.gate is Gate.OPEN:
                await self._tell(told, backend, gates[backend].slot)
        for backend in given.leaving.values():
            if backend not in told.removed:
                await self._remove(told, backend)

    def _gates(self, slot: int, want: Wanted) -> tuple[Given, dict[str, WantedGate]]:
        """The service's backends, and the gate of each."""
        given = self._backends.give(slot, [gate.slot.model for gate in want.gates])
        short = [gate for gate in want.gates if gate.slot.model not in given.models]
        if short and given.front:
            models = ", ".join(gate.slot.model for gate in short)
            self._warn(want.name, f"no backend is free for {models}: Serve's proxy is asked")
        found = {
            given.models[gate.slot.model]: gate for gate in want.gates if gate.slot.model in given.models
        }
        front = want.front
        if given.front or not found:
            names = tuple(name for gate in short for name in gate.slot.models)
            adapters = tuple(name for gate in short for name in gate.slot.adapters)
            front = replace(front, slot=replace(front.slot, models=names, adapters=adapters))
            return given, {given.front or given.own: front, **found}
        ((backend, only),) = found.items()
        prefix = only.slot.choice is not None and only.slot.choice.policy is Policy.PREFIX
        alone = replace(only.slot, front=True, waits=prefix)
        return given, {backend: replace(only, slot=alone)}

    async def _tell(self, told: _Told, backend: str, slot: Slot) -> None:
        if told.gates.get(backend) == slot:
            return
        told.gates.pop(backend, None)
        told.touched.add(backend)
        told.removed.discard(backend)
        await self._gateway.set_gate(backend, slot)
        told.gates[backend] = slot
        self._on_told(False)
        log.info("gate", service=slot.service, model=slot.model, gate=slot.gate.value, epoch=slot.epoch)

    async def _set_servers(self, told: _Told, backend: str, servers: tuple[Server, ...]) -> None:
        if told.servers.get(backend) == servers:
            return
        told.servers.pop(backend, None)
        told.touched.add(backend)
        self._lingering.add(backend)
        await self._gateway.set_servers(backend, servers)
        told.servers[backend] = servers

    async def _remove(self, told: _Told, backend: str) -> None:
        """A model has gone: nobody new comes, and who streams goes on."""
        told.gates.pop(backend, None)
        told.servers.pop(backend, None)
        await self._gateway.remove_gate(backend)
        await self._gateway.set_servers(backend, ())
        told.removed.add(backend)
        self._lingering.add(backend)
        self._on_told(False)
