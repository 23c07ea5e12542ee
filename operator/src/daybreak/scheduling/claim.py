"""What workloads hold of what is scarce, or want of it, and what follows for each of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from daybreak.scheduling.replica_size import CORES

PATIENCE = timedelta(seconds=5)
"""How long the scheduler must have found no room for a pod: pods that end free theirs within seconds."""
LOOK_AGAIN = timedelta(seconds=2)
"""How soon to look again while somebody waits: idleness grows by itself."""

Amounts = Mapping[str, Decimal]
"""Of each resource, in its base unit: cores, bytes, devices."""


@dataclass(frozen=True)
class Claim:
    """A model that holds accelerators, or wants some; or cores and memory, where it has none."""

    owner: str
    """The workload, as `namespace/name`."""
    model: str
    resource: str
    """Name of the accelerator's resource; `CORES` of a model without."""
    since: datetime
    """When its wake began, or since when it has been awake."""
    devices: int = 0
    """Accelerators of one of its pods; none of one without."""
    holds: Mapping[str, int] = field(default_factory=dict)
    """Accelerators that its pods hold, by node; of one without, how many pods stand there."""
    waits: bool = False
    """Whether it is on the way up, and has not answered yet."""
    lost: bool = False
    """Whether it is awake, has lost pods without which it cannot answer, and finds no room for others. Its
    gate is open, so it keeps the pods that it has."""
    no_room_since: datetime | None = None
    """Since when the scheduler has found no room for one of its pods; None: it found room."""
    queued: bool = False
    """Whether it has given its pods back, and makes none until its turn comes."""
    asked: bool = False
    """Whether requests are held for it."""
    held_since: datetime | None = None
    """Since when the oldest of these has been held; None: that is not told."""
    forsaken: bool = False
    """Whether all have gone for whom it wakes: it is about to leave, and nobody gives way to it."""
    overdue: bool = False
    """Whether it has come first for as long as its requests may be held and has found no room, so that it
    lets the others try; of one that has lost pods, whether it has found no room for so long."""
    wake_overdue: bool = False
    """Whether its first requests have been held for as long as they may be."""
    nodes: frozenset[str] | None = None
    """Nodes that would take one of its pods when they are empty; None: that is not known."""
    leaving: bool = False
    """Whether it gives back what it holds already, on its way to sleep."""
    priority: int = 0
    """Of those that wait, the one with the highest comes first."""
    background: bool = False
    """Whether nobody waits for it, as with a batch: it comes after all others, gives way before them, and
    nobody gives way to it."""
    yields_at: datetime | None = None
    """From when on it gives way if nobody asks for it, or it takes turns; None: it is asked now, or does not
    give way."""
    busy: bool = False
    """Whether it is asked at this moment, and gives way all the same."""
    begins: bool = False
    """Whether no Ray cluster of its workload is active yet: KubeRay calls one so when all is up that Serve is
    asked for, and until then none of its models is let through to."""
    first_since: datetime | None = None
    """Since when it has come first of those that wait; None: it does not, or that is not known yet."""
    room_seconds: tuple[int, ...] = ()
    """How long it has taken before, from when it came first until it had room."""
    stays_down: bool = False
    """Whether its turn is over: it is asked on its way to sleep, or in it, and is not to come back as long as
    another one waits."""
    comes_back: bool = False
    """Whether it would wake at once from the sleep that it is in, or on its way to: it is asked, or does not
    sleep by itself."""
    priority_class: str = ""
    """Name of its pods' PriorityClass; empty: they name none."""
    needs: Amounts = field(default_factory=dict)
    """What one of its pods asks of a node."""
    gives: Mapping[str, Amounts] = field(default_factory=dict)
    """What comes free on each node when its pods go."""
    lacks: int = 0
    """Pods that it wants on its way up, and that stand on no node yet."""
    first_lacks: int = 0
    """Those of them without which it cannot answer."""

    @property
    def name(self) -> tuple[str, str]:
        """Which one it is, for certain."""
        return self.owner, self.model

    @property
    def held(self) -> int:
        """Accelerators that it holds."""
        return sum(self.holds.values()) if self.resource != CORES else 0

    @property
    def short(self) -> bool:
        """Whether it wants room, and the scheduler has found none; maybe only for a moment."""
        return self.lost or (self.waits and (self.queued or self.no_room_since is not None))

    def stuck(self, now: datetime, node_wait: timedelta = timedelta(0)) -> bool:
        """Whether it wants room and finds none, though it has waited for nodes that may be added.

        Who came first before, and gave its pods back for that, has waited so long already.
        """
        return self.short and (self.queued or now >= self.patient_until(node_wait))

    @property
    def tries(self) -> bool:
        """Whether it makes its pods anew, as the one that comes first, and the scheduler has not found yet
        that they have no room: until then nobody behind it may make any."""
        return self.waits and not self.queued and self.first_since is not None

    def patient_until(self, node_wait: timedelta = timedelta(0)) -> datetime:
        """Until when it waits by itself."""
        since = self.since if self.no_room_since is None else self.no_room_since
        return since + PATIENCE + (node_wait if self.first_since is None else timedelta(0))


@dataclass(frozen=True)
class Turn:
    """What follows for one model."""

    after: tuple[str, ...] = ()
    """Workloads that come before it, the first `MAX_AFTER` of them; it makes no pods until they have room.
    Empty: it is its turn."""
    gives_way_to: str = ""
    """The workload for whose sake it is to sleep, if nobody asks it meanwhile; empty: none."""
    held_by: tuple[str, ...] = ()
    """Workloads that hold the accelerators it wants, with the model where a workload has several that take
    them."""
    place: int = 0
    """Its place among those that wait, 1 for the one that comes first; 0: it does not wait."""
    expected: datetime | None = None
    """When it may expect room, by what such waits have taken; None: that is not known."""
    waited_for: int = 0
    """Accelerators that it holds, and that others wait for."""
    preempted: bool = False
    """Whether it gives way whatever its traffic and its sleep settings, and does not come back meanwhile: the
    scheduler would delete its pods for those of the other one."""
    preempts: bool = False
    """Whether those in `after` are to leave first because its pods would have the scheduler delete theirs."""
    cores: bool = False
    """Whether it is about cores and memory, as of a model without accelerators."""
    lacks: tuple[str, ...] = ()
    """Resources besides accelerators that are short on every node with enough free accelerators."""
    hopeless: bool = False
    """True if no node takes one of its pods even if all models sleep: other pods hold too much."""
    look_again: timedelta | None = field(default=None, compare=False)
    """How soon time alone may change somebody's turn; None: never."""

    @property
    def in_queue(self) -> bool:
        """Whether it waits for accelerators that others hold, or want before it."""
        return bool(self.after or (self.place and self.held_by))

    @property
    def acted_on(self) -> tuple[object, ...]:
        """What of it makes somebody do something; the rest is told to people, and counted."""
        return bool(self.after), self.gives_way_to, self.preempted, self.place == 1, self.in_queue


NO_MATTER = Turn()
"""Nobody waits for it, and it waits for nobody."""
