"""Reconciler of HAProxy with the cache: level-triggered, one service after the other."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import structlog

from daybreak.api.schema.resource import Resource
from daybreak.gateway.agent.proofs import Proofs, with_guard
from daybreak.gateway.desired import workloads
from daybreak.gateway.desired.gates import Claims, DesiredGate, DesiredService, Ports, desired_state
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.hold.model_backends import Given, ModelBackends
from daybreak.gateway.hold.process import Gateway, Known
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Policy, Slot
from daybreak.gateway.responses import responses
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey
from daybreak.manifests.resources import PODS

TICK_SECONDS = 1.0
"""Seconds between two retries of failed changes, and between two removals of servers whose last stream has
ended."""

KEYS_SECONDS = 10.0
"""Seconds between two reads of the API key files."""
UNTOLD = -1
"""Epoch of a gate before its first change is applied."""

log = structlog.get_logger("daybreak.gateway")


@dataclass(slots=True)
class _Programmed:
    """Configuration of a service in HAProxy; missing parts were not or not completely applied."""

    uid: str
    name: str
    gates: dict[str, Slot] = field(default_factory=dict)
    """Gates by backend."""
    servers: dict[str, tuple[Server, ...]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    """Backends whose configuration may have been changed."""
    removed: set[str] = field(default_factory=set)
    """Backends of removed models."""


class Programmer:
    """Configurator of the data path.

    Args:
        cache: Workloads and their pods.
        gateway: Data path, started before `run`.
        namespace: Namespace of all services.
        ports: Ports at which pods listen for requests.
        keys: Reader of API keys.
        on_programmed: Callback after a change in HAProxy, with True if a service was removed.
    """

    def __init__(
        self,
        cache: Cache,
        gateway: Gateway,
        *,
        namespace: str,
        ports: Ports,
        keys: KeyFiles,
        on_programmed: Callable[[bool], None],
    ) -> None:
        self._cache = cache
        self._gateway = gateway
        self._namespace = namespace
        self._ports = ports
        self._keys = keys
        self._keyed: set[str] = set()
        """Services with API keys. Their files change without a notification."""
        self._on_programmed = on_programmed
        self._claims = Claims()
        self._proofs = Proofs(self._found_out)
        self._backends = ModelBackends(gateway.config.model_backends)
        self._reported: dict[int, _Programmed] = {}
        self._names: set[str] = set()
        self._adopted: set[int] = set()
        """Slots of the previous agent that have not been checked yet."""
        self._failed: set[str] = set()
        self._failed_slots: set[int] = set()
        self._lingering: set[str] = set()
        """Backends that may have servers with remaining streams."""
        self._warned: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()
        self._refusing = False
        self._keys_read = time.monotonic()
        self.completed = float("inf")
        """Time at which every initially known service had been configured or tried, on the monotonic
        clock."""
        cache.subscribe(self._changed)

    async def adopt(self) -> None:
        """Adopt HAProxy's configuration from a previous agent. Call it before `run`. Raises RuntimeApiError.

        Everything is sent again, which has no effect on unchanged parts. Configuration that is no longer
        desired is removed.
        """
        known, with_servers = await self._gateway.read_back()
        gates: dict[int, list[Known]] = {}
        for gate in known:
            slot = gate.port - self._gateway.config.first_port
            reported = self._reported.setdefault(slot, _Programmed(gate.uid, gate.service))
            if gate.uid != reported.uid:
                reported.uid = ""  # a mix of two services belongs to neither, so all of it is removed
            reported.touched.add(gate.backend)
            if gate.gone:
                reported.removed.add(gate.backend)
            gates.setdefault(slot, []).append(gate)
        for slot, found in gates.items():
            self._backends.adopt(slot, found)
        self._backends.adopt_ending(with_servers)
        self._lingering.update(with_servers)
        self._adopted = set(gates)
        log.info("Adopted the configuration of HAProxy", gates=len(known))

    async def run(self) -> None:
        """Reconcile until canceled."""
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
            # Before the next read of changes, so that none is missed.
            self._wake.clear()
            if time.monotonic() - ticked >= TICK_SECONDS:
                await self._tick()
                ticked = time.monotonic()

    async def _complete(self) -> None:
        try:
            await self._gateway.notified_all()
        except RuntimeApiError as error:
            log.warning("Failed to report to HAProxy that its services are complete", error=str(error))
            self._names |= set(self._claims.names())
            return
        self.completed = time.monotonic()

    async def refuse(self) -> None:
        """Reject all held and new requests from now on, because the gateway's time is up."""
        self._refusing = True
        reason = responses.table()["draining"].message
        for reported in list(self._reported.values()):
            for backend, slot in list(reported.gates.items()):
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
            with self._tolerant("Failed to remove servers", backend):
                if not await self._gateway.remove_left_servers(backend):
                    self._lingering.discard(backend)
        for backend in list(self._backends.ending):
            with self._tolerant("Failed to free a backend", backend):
                await self._free(backend)
        for slot, _, backend in self._backends.leaving():
            reported = self._reported.get(slot)
            if reported is not None and backend in reported.removed:
                with self._tolerant("Failed to free a backend", backend):
                    await self._let_go(reported, backend)

    async def _let_go(self, reported: _Programmed, backend: str) -> None:
        """Remove a deleted model, once its last request has ended."""
        if await self._gateway.empty(backend):
            await self._gateway.unset_gate(backend)
            reported.removed.discard(backend)
            reported.touched.discard(backend)
            self._freed(backend)
            self._on_programmed(True)

    async def _free(self, backend: str) -> None:
        if await self._gateway.empty(backend):
            self._freed(backend)

    def _freed(self, backend: str) -> None:
        self._backends.ended(backend)
        # A service without enough backends may need it.
        self._names |= self._claims.names()
        self._wake.set()

    @contextlib.contextmanager
    def _tolerant(self, what: str, backend: str) -> Iterator[None]:
        """Log a failure, which is retried: one service must never block the others."""
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
        """Read a service from the cache. Returns the slots that may need changes."""
        owner, config = OwnerKey.of_label(self._namespace, name), self._gateway.config
        try:
            manifest = workloads.workload(self._cache, owner)
            pods = self._cache.owned_by(owner, PODS)
            claim = None
            self._keyed.discard(name)
            if manifest is not None:
                keys = self._keys.keys(manifest)
                claim = desired_state(manifest, pods, self._ports, keys)
                if keys:
                    self._keyed.add(name)
        except Exception as error:  # one service must never block the others
            log.exception("Failed to read a service", service=name, error=str(error))
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
            log.warning("Service is not fully served", service=name, why=why)

    async def _bring(self, slot: int) -> None:
        try:
            await self._program(slot)
        except RuntimeApiError as error:
            log.warning("Failed to program a service", slot=slot, error=str(error))
            self._failed_slots.add(slot)
        except Exception as error:  # one service must never block the others
            log.exception("Failed to program a service", slot=slot, error=str(error))
            self._failed_slots.add(slot)

    async def _program(self, slot: int) -> None:
        """Reconcile a slot of HAProxy with the desired state."""
        if self._refusing:
            return
        want = self._claims.holder(self._gateway.config.first_port + slot)
        reported = self._reported.get(slot)
        if reported is not None and (want is None or want.uid != reported.uid):
            # For another service: requests held for the previous one must not reach it.
            for backend in sorted(reported.touched):
                await self._gateway.unset_gate(backend)
                self._lingering.add(backend)
            self._backends.forget(slot)
            del self._reported[slot]
            reported = None
            self._on_programmed(True)
            log.info("Stopped serving a service", slot=slot)
        if want is None:
            return
        if reported is None:
            reported = self._reported[slot] = _Programmed(want.uid, want.name)
        given, gates = self._gates(slot, want)
        gates = {
            backend: with_guard(gate, self._proofs, reported.gates.get(backend))
            for backend, gate in gates.items()
        }
        # A request for a model that is not configured yet must not wait for all models.
        for backend in sorted(gates.keys() - reported.touched - {given.front or given.own}):
            gate = gates[backend].slot
            await self._notify(reported, backend, replace(gate, gate=Gate.CLOSED, epoch=UNTOLD))
        # Gates that close come first and gates that open come last, so that no gate is open for outdated
        # servers. The front admits requests to all models, so it is the first to close and the last to open.
        order = sorted(gates, key=lambda backend: backend != given.front)
        for backend in order:
            if gates[backend].slot.gate is not Gate.OPEN:
                await self._notify(reported, backend, gates[backend].slot)
        for backend in order:
            await self._set_servers(reported, backend, gates[backend].servers)
        for backend in reversed(order):
            if gates[backend].slot.gate is Gate.OPEN:
                await self._notify(reported, backend, gates[backend].slot)
        for backend in given.leaving.values():
            if backend not in reported.removed:
                await self._remove(reported, backend)

    def _gates(self, slot: int, want: DesiredService) -> tuple[Given, dict[str, DesiredGate]]:
        """Return the backends of a service, and the gate of each."""
        given = self._backends.give(slot, [gate.slot.model for gate in want.gates])
        short = [gate for gate in want.gates if gate.slot.model not in given.models]
        if short and given.front:
            models = ", ".join(gate.slot.model for gate in short)
            self._warn(want.name, f"no backend is free for {models}: their requests go to Serve's proxy")
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

    async def _notify(self, reported: _Programmed, backend: str, slot: Slot) -> None:
        if reported.gates.get(backend) == slot:
            return
        reported.gates.pop(backend, None)
        reported.touched.add(backend)
        reported.removed.discard(backend)
        await self._gateway.set_gate(backend, slot)
        reported.gates[backend] = slot
        self._on_programmed(False)
        log.info("Set gate", service=slot.service, model=slot.model, gate=slot.gate.value, epoch=slot.epoch)

    async def _set_servers(self, reported: _Programmed, backend: str, servers: tuple[Server, ...]) -> None:
        if reported.servers.get(backend) == servers:
            return
        reported.servers.pop(backend, None)
        reported.touched.add(backend)
        self._lingering.add(backend)
        await self._gateway.set_servers(backend, servers)
        reported.servers[backend] = servers

    async def _remove(self, reported: _Programmed, backend: str) -> None:
        """Remove the gate of a deleted model: no new requests arrive, and streams continue."""
        reported.gates.pop(backend, None)
        reported.servers.pop(backend, None)
        await self._gateway.remove_gate(backend)
        await self._gateway.set_servers(backend, ())
        reported.removed.add(backend)
        self._lingering.add(backend)
        self._on_programmed(False)
