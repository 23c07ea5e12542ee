"""An object with one or more gates, as far as sleep, wake and traffic concern it."""

from collections.abc import Mapping
from typing import Protocol

from daybreak.api.gates.access import Access
from daybreak.api.gates.protocol import Protocol as Speaks
from daybreak.api.gates.sleep import Hold, Sleep, State
from daybreak.api.ray.workload import RayWorkload


class Wishes(Protocol):
    """What its spec says of that."""

    @property
    def state(self) -> State | None:
        """What it is kept at; None: the traffic decides."""
        ...

    @property
    def hold(self) -> Hold | None:
        """How requests wait."""
        ...

    @property
    def access(self) -> Access | None:
        """Who may use it."""
        ...


class Subject(Protocol):
    """The object."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def namespace(self) -> str:
        """Where it is."""
        ...

    @property
    def uid(self) -> str:
        """Which of that name it is."""
        ...

    @property
    def generation(self) -> int:
        """Of its spec."""
        ...

    @property
    def owner(self) -> str:
        """What stands for it in labels, and in names of its objects."""
        ...

    @property
    def sleeps(self) -> Mapping[str, Sleep | None]:
        """When the model behind each gate sleeps, by the gate's name; None: never by itself."""
        ...

    def starts_asleep(self, gate: str) -> bool:
        """Return whether the model of a new object has no replica until a client asks it."""
        ...

    @property
    def protocol(self) -> Speaks | None:
        """API that it speaks; None: OpenAI's."""
        ...

    @property
    def spec(self) -> Wishes:
        """Its spec."""
        ...

    @property
    def workload(self) -> RayWorkload:
        """Its pods, for what builds, places and counts pods of any workload."""
        ...
