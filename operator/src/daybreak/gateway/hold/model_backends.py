"""Which gate has which of HAProxy's backends."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from daybreak.gateway.hold.process import Known, model_backend, own_backend


@dataclass
class Given:
    """The backends of one service."""

    own: str
    """The backend of its port."""
    front: str = ""
    """Empty: it has one gate, which takes all requests to the port."""
    models: dict[str, str] = field(default_factory=dict)
    """By model. Whoever has none left is the front's."""
    leaving: dict[str, str] = field(default_factory=dict)
    """Of models that have gone, until the last of their requests has ended."""

    def all(self) -> set[str]:
        """All of them."""
        return {self.own, *filter(None, [self.front]), *self.models.values(), *self.leaving.values()}


class ModelBackends:
    """Gives out backends, and takes them back when the last of their requests has ended.

    A service with one model has the backend of its port. Where more come, the first one keeps it, with those
    who are held there, and what is new gets backends from a common stock: each model, and the front.
    There is no way back: a request that is held cannot go from one backend to another.
    """

    def __init__(self, number: int) -> None:
        self._free = [model_backend(each) for each in reversed(range(number))]
        self._given: dict[int, Given] = {}
        self.ending: set[str] = set()
        """Backends of services that have gone, and that may still have requests."""

    def adopt(self, slot: int, gates: Iterable[Known]) -> None:
        """Take in the gates of a service that HAProxy knows already, as somebody else gave them out."""
        given = self._given.setdefault(slot, Given(own_backend(slot)))
        gates = sorted(gates, key=lambda gate: gate.gone)
        for gate in gates:
            if gate.gone and gate.model:
                given.leaving[gate.model] = gate.backend
            elif gate.model:
                given.models[gate.model] = gate.backend
            elif gate.backend != given.own or len(gates) > 1:
                # Alone it is a service without models: whichever comes first may have its backend.
                given.front = gate.backend
            self._occupy(gate.backend)

    def adopt_ending(self, backends: Iterable[str]) -> None:
        """Take in backends of which no gate is known and that may still have requests."""
        given = {name for each in self._given.values() for name in each.all()}
        for backend in backends:
            if backend in self._free and backend not in given:
                self._occupy(backend)
                self.ending.add(backend)

    def _occupy(self, backend: str) -> None:
        if backend in self._free:
            self._free.remove(backend)

    def give(self, slot: int, models: Sequence[str]) -> Given:
        """The backends of a service that has these models now."""
        given = self._given.setdefault(slot, Given(own_backend(slot)))
        for model in [model for model in given.models if model not in models]:
            backend = given.models.pop(model)
            # Without any model there is nothing to go by: what is held is held on.
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
            # The one that the first model has had, with whoever is held there.
            given.front = given.own
            for found in (given.models, given.leaving):
                for model in [model for model, backend in found.items() if backend == given.own]:
                    del found[model]

    def _take(self) -> str:
        return self._free.pop() if self._free else ""

    def forget(self, slot: int) -> Collection[str]:
        """The service has gone. Returns the backends that it had."""
        given = self._given.pop(slot, Given(own_backend(slot)))
        self.ending |= given.all() - {given.own}
        return sorted(given.all())

    def leaving(self) -> list[tuple[int, str, str]]:
        """Slot, model and backend of models that have gone, of services that have not."""
        return [
            (slot, model, backend)
            for slot, given in self._given.items()
            for model, backend in given.leaving.items()
        ]

    def ended(self, backend: str) -> None:
        """The last request of a backend has ended: somebody else may have it."""
        own = False
        for slot, given in self._given.items():
            for model in [model for model, name in given.leaving.items() if name == backend]:
                del given.leaving[model]
            own = own or backend == own_backend(slot)
        self.ending.discard(backend)
        if not own:
            self._free.append(backend)
