"""Interface of an object with one or more gates: the fields that concern sleep, wake and traffic."""

from collections.abc import Mapping
from typing import Protocol

from daybreak.api.gates.access import Access
from daybreak.api.gates.protocol import Protocol as Speaks
from daybreak.api.gates.sleep import Hold, Sleep, State
from daybreak.api.ray.workload import RayWorkload


class Wishes(Protocol):
    """Fields of the spec that concern sleep, wake and traffic."""

    @property
    def state(self) -> State | None:
        """Forced state, or None if traffic decides."""
        ...

    @property
    def hold(self) -> Hold | None:
        """Settings for held requests."""
        ...

    @property
    def access(self) -> Access | None:
        """Clients that may use the object."""
        ...


class Subject(Protocol):
    """The object."""

    @property
    def name(self) -> str:
        """Name of the object."""
        ...

    @property
    def namespace(self) -> str:
        """Namespace of the object."""
        ...

    @property
    def uid(self) -> str:
        """UID of the object."""
        ...

    @property
    def generation(self) -> int:
        """Generation of the spec."""
        ...

    @property
    def owner(self) -> str:
        """Value that identifies the object in labels, and in names of its objects."""
        ...

    @property
    def sleeps(self) -> Mapping[str, Sleep | None]:
        """Sleep settings of each gate's model, by the gate's name; None if it never sleeps by itself."""
        ...

    def starts_asleep(self, gate: str) -> bool:
        """Return True if the model of a new object has no replica until its first request."""
        ...

    @property
    def protocol(self) -> Speaks | None:
        """API of the object, or None for the OpenAI API."""
        ...

    @property
    def spec(self) -> Wishes:
        """Spec of the object."""
        ...

    @property
    def workload(self) -> RayWorkload:
        """Pods of the object, for code that builds, places and counts the pods of any workload."""
        ...
