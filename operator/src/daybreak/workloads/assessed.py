"""A workload that can be read, with what follows from what was observed, in the words of its kind."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from daybreak.api.common.conditions import Said
from daybreak.gates.wake_history import Steps
from daybreak.problems.problem import Problem
from daybreak.workloads.asking import Asking
from daybreak.workloads.assessment import Assessment

Timeline = Callable[[str], Steps]
"""The steps of a wake of one gate, by the gate's name."""


class Assessed(Protocol):
    """What a kind says of a workload; decisions and conditions read nothing else."""

    kind: str
    """The object's kind."""
    fits: str
    """What of it stands on nodes."""
    reached: str
    """What gateways send requests to."""

    @property
    def answerer(self) -> str:
        """What answers, with its verb."""
        ...

    @property
    def seen(self) -> Any:
        """What was observed."""
        ...

    @property
    def blocked(self) -> Problem | None:
        """What keeps the spec from being applied; None: nothing."""
        ...

    @property
    def made(self) -> bool:
        """Whether something was applied before, which goes on."""
        ...

    @property
    def to_act_on(self) -> Sequence[Problem]:
        """What a person has to act on."""
        ...

    def assess(self) -> Mapping[str, Assessment]:
        """Return what is known of the model behind each gate, by the gate's name."""
        ...

    def asking(self) -> Asking:
        """Return which models are to be asked for an answer."""
        ...

    def timeline(self) -> Timeline:
        """Return the steps of a wake."""
        ...

    def answers(self, gates: Collection[str]) -> Said:
        """Return whether the models of these gates answer, whatever the gateway does."""
        ...
