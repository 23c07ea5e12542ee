"""View of a service, derived from the observation: the service as a whole, and each of its models."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from daybreak.api.common.conditions import ShortCondition
from daybreak.api.llmservice.resource import KIND
from daybreak.api.llmservice.status import ModelState
from daybreak.gates.sleep_policy import client_reason
from daybreak.kinds.llmservice.decide import answers
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.problems import to_act_on
from daybreak.kinds.llmservice.decide.second_cluster import judge_all
from daybreak.kinds.llmservice.decide.snapshot import Snapshot, snapshot_of
from daybreak.kinds.llmservice.decide.wake_timeline import wake_timeline
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.problems.problem import Problem
from daybreak.scheduling.replica_size import accelerators_awake
from daybreak.workloads.assessed import Timeline
from daybreak.workloads.assessment import Assessment
from daybreak.workloads.probing import Probing

_NO_CLUSTER = "no Ray cluster is made for it: see Stalled"


@dataclass(frozen=True)
class View:
    """View of a service with a valid spec."""

    observed: Observed
    snapshot: Snapshot
    models: Sequence[ModelHealth]
    blocked: Problem | None
    """Problem that keeps the spec from being applied. None if there is none."""
    kind = KIND
    fits = "the head and a replica of each model"
    answerer = "the models answer"
    reached = "the Ray head"

    @property
    def made(self) -> bool:
        """Return True if there is a RayService, which continues to run."""
        return self.snapshot.ray.exists

    @property
    def to_act_on(self) -> Sequence[Problem]:
        """Return the problems that require action."""
        return to_act_on(self.snapshot, self.models, self.blocked)

    def answers(self, gates: Collection[str]) -> ShortCondition:
        """Return a condition value: whether the models of these gates answer, regardless of the gateway."""
        return answers.answers(self.snapshot, [model for model in self.models if model.name in gates])

    def assess(self) -> dict[str, Assessment]:
        """Return the assessment of each model, by its name."""
        return {model.name: self._assess(model) for model in self.models}

    def asking(self) -> Probing:
        """Return the models to probe, and the time until the next one may be probed."""
        waits = [model.wait for model in self.models if model.wait is not None]
        return Probing(tuple(model.name for model in self.models if model.ask), min(waits, default=None))

    def timeline(self) -> Timeline:
        """Return the function that computes the steps of each model's wake."""
        models = {model.name: model for model in self.snapshot.service.spec.models}
        return lambda name: partial(wake_timeline, self.snapshot, models[name])

    def _assess(self, model: ModelHealth) -> Assessment:
        snapshot, workload = self.snapshot, self.snapshot.service.workload
        [own] = [each for each in snapshot.service.spec.models if each.name == model.name]
        stalled = to_act_on(snapshot, [model], self.blocked)
        return Assessment(
            answering=model.answering,
            drain=self.observed.longest_shutdown,
            failed="" if model.answering else client_reason([problem.message for problem in stalled]),
            updating=snapshot.ray.upgrading or model.state is ModelState.UPDATING,
            hindered=snapshot.problem is not None or any(each.problem is not None for each in self.models),
            has_room=model.has_room,
            lacks_room=snapshot.wakes_from_sleep(model.name) and not model.has_room,
            gpus=model.gpus,
            gpus_awake=accelerators_awake(workload, own),
        )


def view_of(observed: Observed, blocked: Problem | None = None) -> View:
    """Return the view of a service; `blocked` is the problem that keeps its spec from being applied."""
    assert observed.subject is not None  # noqa: S101 - checked by the caller
    # A model that is not probed has no answer, even if a probe was in flight.
    answers = observed.answers if blocked is None else ()
    snapshot, models = judge_all(snapshot_of(observed, observed.subject, observed.misfits or (), answers))
    if blocked is not None and not snapshot.ray.exists:
        models = [replace(model, doing=_NO_CLUSTER) for model in models]
    return View(observed, snapshot, models, blocked)
