"""Whose turn it is among all services, from what was seen of each when it was observed last."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from daybreak.kinds.llmservice.observe.claims import claims
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kube.cache import Key
from daybreak.scheduling.fit import capacities
from daybreak.scheduling.nodes import NodeCapacity
from daybreak.scheduling.turns import Claim, Turn, turns

Turns = Mapping[str, Turn]
"""By model."""


class TurnWatch:
    """Remembers what each service holds and wants, and has those looked at whose turn has changed.

    Args:
        enqueue: Called with a service that is to be looked at.
    """

    def __init__(self, enqueue: Callable[[Key], None]) -> None:
        self._enqueue = enqueue
        self._claims: dict[Key, tuple[Claim, ...]] = {}
        self._turns: dict[Key, Turns] = {}
        """Only of services for which it matters."""
        self._waiting: set[Key] = set()
        """Services with a model that is on the way up."""

    def turns(self, key: Key, seen: Observed) -> Turns:
        """Turns of a service's models, now that this is seen of it; by model, where it matters."""
        self._note(key, claims(seen))
        if self._waiting or self._turns:
            nodes = () if seen.nodes is None else capacities(seen.nodes)
            self._decide(key, self._contested(), nodes, seen.now)
        return self._turns.get(key, {})

    def forget(self, key: Key) -> None:
        """The service has gone. What it held comes free by itself, and those who wait look again."""
        self._note(key, ())
        self._turns.pop(key, None)

    def _note(self, key: Key, found: tuple[Claim, ...]) -> None:
        if found:
            self._claims[key] = found
        else:
            self._claims.pop(key, None)
        if any(claim.waits for claim in found):
            self._waiting.add(key)
        else:
            self._waiting.discard(key)

    def _contested(self) -> dict[tuple[str, str], tuple[Key, Claim]]:
        """Claims on accelerators that somebody waits for."""
        wanted = {claim.resource for key in self._waiting for claim in self._claims[key] if claim.waits}
        return {
            claim.name: (key, claim)
            for key, found in self._claims.items()
            for claim in found
            if claim.resource in wanted
        }

    def _decide(
        self,
        own: Key,
        contested: Mapping[tuple[str, str], tuple[Key, Claim]],
        nodes: Collection[NodeCapacity],
        now: datetime,
    ) -> None:
        decided: dict[Key, dict[str, Turn]] = {}
        for name, turn in turns([claim for _, claim in contested.values()], nodes, now).items():
            decided.setdefault(contested[name][0], {})[name[1]] = turn
        for key in {*self._turns, *decided}:
            if key != own and self._turns.get(key) != decided.get(key):
                self._enqueue(key)
        self._turns = dict(decided)
