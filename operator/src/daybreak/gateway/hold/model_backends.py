"""Assignment of HAProxy's backends to gates."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from daybreak.gateway.hold.process import Known, model_backend, own_backend


@dataclass
class Given:
    """Backends of one service."""

    own: str
    """Backend of the service's port."""
    front: str = ""
    """Backend of the front. Empty if the service has one gate, which takes all requests to the port."""
    models: dict[str, str] = field(default_factory=dict)
    """Backends by model. Models without one share the front's backend."""
    leaving: dict[str, str] = field(default_factory=dict)
    """Backends of removed models, until the last of their requests has ended."""

    def all(self) -> set[str]:
        """Return all backends of the service."""
        return {self.own, *filter(None, [self.front]), *self.models.values(), *self.leaving.values()}


class ModelBackends:
    """Pool of backends, which are released when the last of their requests has ended.

    A service with one model has the backend of its port. If more models are added, the first one keeps that
    backend, with the requests held there. The new models and the front get backends from a common pool. This
    is not reversible, because a held request cannot move from one backend to another.
    """

    def __init__(self, number: int) -> None:
        self._free = [model_backend(each) for each in reversed(range(number))]
        self._given: dict[int, Given] = {}
        self.ending: set[str] = set()
        """Backends of deleted services that may still have requests."""

    def adopt(self, slot: int, gates: Iterable[Known]) -> None:
        """Adopt the gates of a service that a previous agent assigned in HAProxy."""
        given = self._given.setdefault(slot, Given(own_backend(slot)))
        gates = sorted(gates, key=lambda gate: gate.gone)
        for gate in gates:
            if gate.gone and gate.model:
                given.leaving[gate.model] = gate.backend
            elif gate.model:
                given.models[gate.model] = gate.backend
            elif gate.backend != given.own or len(gates) > 1:
                # A single front gate belongs to a service without models, so the first model may have its
                # backend.
                given.front = gate.backend
            self._occupy(gate.backend)

    def adopt_ending(self, backends: Iterable[str]) -> None:
        """Adopt backends without a known gate that may still have requests."""
        given = {name for each in self._given.values() for name in each.all()}
        for backend in backends:
            if backend in self._free and backend not in given:
                self._occupy(backend)
                self.ending.add(backend)

    def _occupy(self, backend: str) -> None:
        if backend in self._free:
            self._free.remove(backend)

    def give(self, slot: int, models: Sequence[str]) -> Given:
        """Return the backends of a service that currently has these models."""
        given = self._given.setdefault(slot, Given(own_backend(slot)))
        for model in [model for model in given.models if model not in models]:
            backend = given.models.pop(model)
            # Without any model the held requests have no destination, so they stay held.
            if models or backend != given.own:
                given.leaving[model] = backend
        used = {*given.models.values(), *given.leaving.values(), given.front}
        if not given.front and given.own not in used:
            if len(models) == 1:
                given.models[models[0]] = given.own
            elif models:
                given.front = given.own
        if models and not given.front and (set(models) - set(given.models) or len(given.models) > 1):
            self._give_front(given)
        for model in models:
            if model not in given.models:
                backend = given.leaving.pop(model, "") or self._take()
                if backend:
                    given.models[model] = backend
        return given

    def _give_front(self, given: Given) -> None:
        given.front = self._take()
        if not given.front:
            # The backend that the first model has had, with the requests held there.
            given.front = given.own
            for found in (given.models, given.leaving):
                for model in [model for model, backend in found.items() if backend == given.own]:
                    del found[model]

    def _take(self) -> str:
        return self._free.pop() if self._free else ""

    def forget(self, slot: int) -> Collection[str]:
        """Release the backends of a deleted service. Returns their names."""
        given = self._given.pop(slot, Given(own_backend(slot)))
        self.ending |= given.all() - {given.own}
        return sorted(given.all())

    def leaving(self) -> list[tuple[int, str, str]]:
        """Return slot, model and backend of models that were removed from existing services."""
        return [
            (slot, model, backend)
            for slot, given in self._given.items()
            for model, backend in given.leaving.items()
        ]

    def ended(self, backend: str) -> None:
        """Return a backend whose last request has ended to the pool."""
        own = False
        for slot, given in self._given.items():
            for model in [model for model, name in given.leaving.items() if name == backend]:
                del given.leaving[model]
            own = own or backend == own_backend(slot)
        self.ending.discard(backend)
        if not own:
            self._free.append(backend)
