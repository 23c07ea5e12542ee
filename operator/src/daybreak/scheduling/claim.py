"""Claims of workloads to scarce resources, and the position in the queue that follows for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from daybreak.scheduling.replica_size import CORES

PATIENCE = timedelta(seconds=5)
"""Minimum time for which a pod must be unschedulable, because ending pods free capacity within seconds."""
LOOK_AGAIN = timedelta(seconds=2)
"""Time until the next reconcile while a model waits: idle times grow without events."""

Amounts = Mapping[str, Decimal]
"""Amount of each resource in its base unit: CPUs, bytes, devices."""


@dataclass(frozen=True)
class Claim:
    """Claim of a model that holds or needs accelerators, or CPUs and memory if it has no accelerators."""

    owner: str
    """The workload, as `namespace/name`."""
    model: str
    resource: str
    """Name of the accelerator's resource, or `CORES` for a model without accelerators."""
    since: datetime
    """Start of the wake, or time since which the model has been awake."""
    devices: int = 0
    """Accelerators of one of its pods. 0 for a model without accelerators."""
    holds: Mapping[str, int] = field(default_factory=dict)
    """Accelerators that its pods hold, by node. For a model without accelerators, the number of its pods."""
    waits: bool = False
    """True if the model is starting or waking and has not answered yet."""
    lost: bool = False
    """True if the model is awake, but has lost pods that it needs to answer and that cannot be scheduled.

    Its gate is open, so it keeps its remaining pods.
    """
    no_room_since: datetime | None = None
    """Time since which the scheduler cannot place one of its pods, or None if it could."""
    queued: bool = False
    """True if the model has released its pods and creates none until its turn."""
    requested: bool = False
    """True if requests are held for the model."""
    held_since: datetime | None = None
    """Arrival time of the oldest held request, or None if it is not reported."""
    abandoned: bool = False
    """True if all clients of a waking model have gone: it will leave the queue, and no model yields to it."""
    overdue: bool = False
    """True if the model lets the others try, after its hold timeout as the unschedulable first one.

    For a model that has lost pods: True if they have been unschedulable for the hold timeout.
    """
    wake_overdue: bool = False
    """True if the first requests of the wake have been held for the hold timeout."""
    nodes: frozenset[str] | None = None
    """Nodes that would accept one of its pods if they were empty, or None if unknown."""
    leaving: bool = False
    """True if the model is going to sleep and already releases its resources."""
    priority: int = 0
    """Priority among waiting models. The highest is first."""
    background: bool = False
    """True for work without waiting clients, such as a batch.

    It is behind all other models in the queue and yields before them, and no model yields to it.
    """
    yields_at: datetime | None = None
    """Time from which the model yields, or None if it has requests or does not yield.

    An idle model yields, and a busy one that takes turns.
    """
    busy: bool = False
    """True if the model currently has requests and yields anyway."""
    begins: bool = False
    """True if no Ray cluster of the workload is active yet.

    KubeRay activates one when everything that Serve needs runs. Until then none of its models receives
    requests.
    """
    first_since: datetime | None = None
    """Time since which the model has been first in the queue, or None if it is not, or if unknown."""
    room_seconds: tuple[int, ...] = ()
    """Previous durations from first position to capacity, in seconds."""
    stays_down: bool = False
    """True if the turn of the model is over: it must not return while another model waits.

    It has requests while it sleeps or goes to sleep.
    """
    comes_back: bool = False
    """True if the model would wake at once from its sleep or drain.

    It has requests, or does not sleep by itself.
    """
    priority_class: str = ""
    """Name of the PriorityClass of its pods. Empty if they name none."""
    needs: Amounts = field(default_factory=dict)
    """Requests of one of its pods."""
    gives: Mapping[str, Amounts] = field(default_factory=dict)
    """Amounts that become free on each node when its pods end."""
    lacks: int = 0
    """Pods that a starting or waking model still needs on a node."""
    first_lacks: int = 0
    """Part of `lacks` without which the model cannot answer."""

    @property
    def name(self) -> tuple[str, str]:
        """Unique name of the claim: workload and model."""
        return self.owner, self.model

    @property
    def held(self) -> int:
        """Accelerators that the model holds."""
        return sum(self.holds.values()) if self.resource != CORES else 0

    @property
    def short(self) -> bool:
        """True if the model needs capacity that the scheduler has not found, maybe only briefly."""
        return self.lost or (self.waits and (self.queued or self.no_room_since is not None))

    def stuck(self, now: datetime, node_wait: timedelta = timedelta(0)) -> bool:
        """Return True if the model needs capacity and finds none, after a wait for nodes that may be added.

        A model that was first before, and released its pods for that, has already waited that long.
        """
        return self.short and (self.queued or now >= self.patient_until(node_wait))

    @property
    def tries(self) -> bool:
        """True if the model is first and recreates its pods, and their scheduling result is not known yet.

        Until then no model behind it may create pods.
        """
        return self.waits and not self.queued and self.first_since is not None

    def patient_until(self, node_wait: timedelta = timedelta(0)) -> datetime:
        """Return the time until which the model waits without consequences for others."""
        since = self.since if self.no_room_since is None else self.no_room_since
        return since + PATIENCE + (node_wait if self.first_since is None else timedelta(0))


@dataclass(frozen=True)
class Turn:
    """Position of one model in the queue, with the actions that follow."""

    after: tuple[str, ...] = ()
    """Workloads ahead in the queue, at most `MAX_AFTER`. Empty if the model may create pods.

    Otherwise the model creates no pods until these workloads have been scheduled.
    """
    gives_way_to: str = ""
    """Workload for which the model must sleep, unless it receives requests first. Empty if none."""
    held_by: tuple[str, ...] = ()
    """Workloads that hold the required accelerators, with the model if several of a workload use them."""
    place: int = 0
    """Position among the waiting models, from 1. 0 if the model does not wait."""
    expected: datetime | None = None
    """Estimated time of capacity, from the durations of previous waits, or None if unknown."""
    waited_for: int = 0
    """Accelerators that the model holds and other models wait for."""
    preempted: bool = False
    """True if the model must yield regardless of its traffic and sleep settings.

    The scheduler would otherwise delete its pods for those of the other model. It must not return until the
    other model has capacity.
    """
    preempts: bool = False
    """True if the workloads in `after` must leave first, or the scheduler deletes their pods."""
    cores: bool = False
    """True if the queue is for CPUs and memory, for models without accelerators."""
    lacks: tuple[str, ...] = ()
    """Resources besides accelerators that are short on every node with enough free accelerators."""
    hopeless: bool = False
    """True if no node accepts one of its pods even if all models sleep: other pods use too much."""
    look_again: timedelta | None = field(default=None, compare=False)
    """Time after which a position may change without an event, or None if none may."""

    @property
    def in_queue(self) -> bool:
        """True if the model waits for accelerators that others hold, or will get first."""
        return bool(self.after or (self.place and self.held_by))

    @property
    def acted_on(self) -> tuple[object, ...]:
        """Fields whose change requires an action. The others are for display and metrics."""
        return bool(self.after), self.gives_way_to, self.preempted, self.place == 1, self.in_queue


NO_MATTER = Turn()
"""Turn of a model that neither waits nor blocks others."""
