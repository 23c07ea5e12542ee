"""Accelerator queue of all workloads, from the last observation of each workload."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from daybreak.controller import metrics
from daybreak.controller.asking.other_pods import MOST_NODES, OtherPods
from daybreak.controller.watching.booked_watch import BookedWatch
from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.priority_watch import PriorityWatch
from daybreak.manifests.keys import OwnerKey
from daybreak.scheduling.claim import NO_MATTER, Claim, Turn
from daybreak.scheduling.fit import capacities
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.nodes import Node
from daybreak.scheduling.pod_priority import PriorityClasses, priority
from daybreak.scheduling.replica_size import CORES
from daybreak.scheduling.room import Booked
from daybreak.scheduling.turns import turns

FRESH = timedelta(milliseconds=200)
"""Time for which a decision is reused for a workload with unchanged claims, because many workloads are
reconciled at the same time."""

SAME = timedelta(seconds=1)
"""Maximum change of a model's `yields_at` that counts as unchanged. The time follows from idle times that
gateways report with some delay."""
TOLD_SECONDS = 2.0
"""Period in seconds over which workloads are requeued if only the text of their queue entry has changed.
Every start and every sleep changes the text for all waiting workloads, but must not wait for a hundred status
writes."""

Turns = Mapping[str, Turn]
"""Queue entries by model."""


@dataclass(frozen=True)
class Pods:
    """State of pods and priorities, which is needed to calculate free capacity.

    Without it, the operator knows only the scheduler's reports of missing capacity.
    """

    priorities: PriorityWatch
    """Reads the PriorityClasses."""
    booked: BookedWatch
    """Resources that pods of workloads use on nodes."""
    others: OtherPods
    """Resources that other pods use on nodes."""


class TurnWatch:
    """Stores the claims of each workload, and requeues workloads whose queue entry has changed.

    Args:
        nodes: Reads the nodes.
        enqueue: Called with a workload to reconcile and a delay in seconds.
        node_wait: Time that an unschedulable model waits for new nodes before other models free capacity.
        pods: State of pods; None ignores priorities.
    """

    def __init__(
        self,
        nodes: NodeWatch,
        enqueue: Callable[[OwnerKey, float], None],
        node_wait: timedelta = timedelta(0),
        pods: Pods | None = None,
    ) -> None:
        self._nodes = nodes
        self._pods = pods
        self._enqueue = enqueue
        self._node_wait = node_wait
        self._claims: dict[OwnerKey, tuple[Claim, ...]] = {}
        self._turns: dict[OwnerKey, Turns] = {}
        """Queue entries of the workloads that have any."""
        self._short: set[OwnerKey] = set()
        """Workloads with a model that could not be scheduled at the last observation."""
        self._coming: set[OwnerKey] = set()
        """Workloads with a model that needs pods which the scheduler has not processed yet."""
        self._of_class = Counter[str]()
        """Number of models with pods of each PriorityClass."""
        self._decided: tuple[datetime, tuple[Node, ...] | None] = (datetime.min.replace(tzinfo=UTC), None)
        """Time of the last decision about the whole queue, and its nodes."""
        self._stuck: dict[tuple[str, str], datetime] = {}
        """Models that cannot be scheduled, with the start of that state."""

    def turns(self, workload: OwnerKey, claims: Sequence[Claim], now: datetime) -> Turns:
        """Record a workload's claims and return the queue entries of its models, if any."""
        changed = self._note(workload, claims)
        self._measure(claims, now)
        if (self._short or self._turns or self._preempts) and (changed or self._stale(now)):
            self._decide(workload, self._contested(), now)
        return self._turns.get(workload, {})

    def forget(self, workload: OwnerKey) -> None:
        """Drop a deleted workload.

        Its accelerators become free without further action, and waiting workloads are requeued.
        """
        for claim in self._claims.get(workload, ()):
            self._stuck.pop(claim.name, None)
        self._note(workload, ())
        self._turns.pop(workload, None)

    @property
    def _classes(self) -> PriorityClasses:
        """PriorityClasses; empty if all pods have one priority, so that classes make no difference."""
        classes = self._pods.priorities.classes() if self._pods is not None else {}
        several = len({priority(classes, name).value for name in self._of_class}) > 1
        return classes if several else {}

    @property
    def _preempts(self) -> bool:
        """True if pods are about to be created and not all have the same priority."""
        return bool(self._coming and self._classes)

    def _stale(self, now: datetime) -> bool:
        """Return True if changed nodes or elapsed time may have changed the last decision."""
        at, nodes = self._decided
        return nodes is not self._nodes.nodes() or not at <= now < at + FRESH

    def _note(self, workload: OwnerKey, found: Sequence[Claim]) -> bool:
        """Record the claims of a workload. Return True if they have changed."""
        before = self._claims.get(workload, ())
        if len(before) == len(found) and all(map(_same, before, found)):
            return False
        if found:
            self._claims[workload] = tuple(found)
        else:
            self._claims.pop(workload, None)
        self._of_class.subtract(claim.priority_class for claim in before)
        self._of_class.update(claim.priority_class for claim in found)
        self._of_class += Counter()
        for some, holds in (
            (self._short, any(claim.short for claim in found)),
            (self._coming, any(claim.lacks and claim.no_room_since is None for claim in found)),
        ):
            (some.add if holds else some.discard)(workload)
        return True

    def _measure(self, claims: Sequence[Claim], now: datetime) -> None:
        """Observe the wait of models that have just been scheduled."""
        for claim in claims:
            if claim.stuck(now):
                self._stuck.setdefault(claim.name, claim.no_room_since or now)
            elif (since := self._stuck.pop(claim.name, None)) and claim.holds:
                waited = (now - since).total_seconds()
                metrics.ACCELERATOR_WAIT_SECONDS.labels(claim.resource).observe(waited)
        metrics.WAITING_FOR_ACCELERATORS.set(len(self._stuck))

    def _contested(self) -> dict[tuple[str, str], tuple[OwnerKey, Claim]]:
        """Return claims on contested accelerators, and those on the same CPUs and memory.

        Return all claims if new pods may preempt others by priority.
        """
        every = self._preempts
        desired = {
            claim.resource for workload in self._short for claim in self._claims[workload] if claim.short
        }
        return {
            claim.name: (workload, claim)
            for workload, found in self._claims.items()
            for claim in found
            if every or claim.resource in desired or (desired and claim.gives)
        }

    def _decide(
        self, own: OwnerKey, contested: Mapping[tuple[str, str], tuple[OwnerKey, Claim]], now: datetime
    ) -> None:
        nodes = self._nodes.nodes()
        self._decided = (now, nodes)
        decided: dict[OwnerKey, dict[str, Turn]] = {}
        claims = [claim for _, claim in contested.values()]
        for name, turn in turns(claims, self._fleet(own, claims, nodes), now, self._node_wait).items():
            decided.setdefault(contested[name][0], {})[name[1]] = turn
        for workload in {*self._turns, *decided}:
            before, after = self._turns.get(workload, {}), decided.get(workload, {})
            if workload != own and before != after:
                only_words = _acted_on(before) == _acted_on(after)
                later = random.uniform(0, TOLD_SECONDS)  # noqa: S311 -- spread, not secrecy
                self._enqueue(workload, later if only_words else 0.0)
        self._turns = dict(decided)

    def _fleet(self, own: OwnerKey, claims: Collection[Claim], nodes: tuple[Node, ...] | None) -> Fleet:
        offered = () if nodes is None else capacities(nodes)
        if self._pods is None or not offered:
            return Fleet(offered)
        desired: set[str] = set()
        for claim in claims:
            if (claim.short and claim.resource != CORES) or (claim.lacks and self._preempts):
                desired |= {node.name for node in offered} if claim.nodes is None else claim.nodes
        cores = _cores_held(claims) - desired
        releasing = {
            node
            for claim in claims
            if claim.leaving or claim.yields_at is not None
            for node in (*claim.holds, *claim.gives)
        }
        # Nodes on which a yield may help are first: for the others, no decision depends on the count.
        requested = sorted(desired | cores, key=lambda node: (node not in releasing, node in cores, node))
        others = self._pods.others.known(requested[:MOST_NODES], lambda: self._reported(own))
        if others is None:
            return Fleet(offered, self._classes, counted=None)
        return Fleet(offered, self._classes, self._with(others), frozenset(others))

    def _reported(self, own: OwnerKey) -> None:
        """Decide again after the resources of other pods have become known or have changed."""
        self._decided = (datetime.min.replace(tzinfo=UTC), None)
        self._enqueue(own, 0.0)

    def _with(self, others: Booked) -> Booked:
        """Return the resources that all pods use on nodes."""
        assert self._pods is not None  # noqa: S101 - checked by the caller
        found = {node: dict(taken) for node, taken in self._pods.booked.booked().items()}
        for node, amounts in others.items():
            own = found.setdefault(node, {})
            for resource, amount in amounts.items():
                own[resource] = own.get(resource, Decimal(0)) + amount
        return found


def _cores_held(claims: Collection[Claim]) -> set[str]:
    """Return nodes on which models use resources that an unschedulable model without accelerators needs."""
    held = {node for claim in claims for node in claim.gives}
    short = [claim.nodes or frozenset() for claim in claims if claim.resource == CORES and claim.short]
    return held & frozenset[str]().union(*short)


def _acted_on(turns: Turns) -> dict[str, tuple[object, ...]]:
    """Return the parts of queue entries that make the workload act."""
    return {model: turn.acted_on for model, turn in turns.items() if turn.acted_on != NO_MATTER.acted_on}


def _same(before: Claim, now: Claim) -> bool:
    """Return True if a claim is unchanged."""
    if before.yields_at is not None and now.yields_at is not None:
        if abs(now.yields_at - before.yields_at) >= SAME:
            return False
        now = replace(now, yields_at=before.yields_at)
    return before == now
