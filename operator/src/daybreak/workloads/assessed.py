"""Interface of a readable workload with the conclusions that its kind draws from the observation."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from daybreak.api.common.conditions import ShortCondition
from daybreak.gates.wake_history import Steps
from daybreak.problems.problem import Problem
from daybreak.workloads.assessment import Assessment
from daybreak.workloads.probing import Probing

Timeline = Callable[[str], Steps]
"""Function that returns the wake steps of a gate, by the gate's name."""


class Assessed(Protocol):
    """Conclusions of a kind about a workload. Decisions and conditions read nothing else."""

    kind: str
    """Kind of the object."""
    fits: str
    """Noun phrase for messages: the parts of the workload that need nodes."""
    reached: str
    """Noun phrase for messages: the target of the gateways' requests."""

    @property
    def answerer(self) -> str:
        """Subject and verb for messages: the parts that answer, such as `its model answers`."""
        ...

    @property
    def observed(self) -> Any:
        """The observation."""
        ...

    @property
    def blocked(self) -> Problem | None:
        """The problem that prevents the operator from applying the spec, or None."""
        ...

    @property
    def made(self) -> bool:
        """True if an earlier spec was applied and its objects continue to run."""
        ...

    @property
    def to_act_on(self) -> Sequence[Problem]:
        """Problems that require action by an administrator."""
        ...

    def assess(self) -> Mapping[str, Assessment]:
        """Return the assessment of the model behind each gate, by the gate's name."""
        ...

    def asking(self) -> Probing:
        """Return the models to probe."""
        ...

    def timeline(self) -> Timeline:
        """Return the function that reads the steps of a wake."""
        ...

    def answers(self, gates: Collection[str]) -> ShortCondition:
        """Return whether the models of these gates answer, regardless of the gateway's state."""
        ...
