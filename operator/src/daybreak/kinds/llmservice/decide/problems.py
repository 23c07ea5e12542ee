"""Problems that block a service, and those of them that require action."""

from collections.abc import Sequence

from daybreak.api.common.conditions import Reason
from daybreak.api.llmservice.resource import KIND
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.problems.no_node_fits import no_node_fits
from daybreak.problems.problem import Problem
from daybreak.scheduling import fit


def in_the_way(snapshot: Snapshot, models: Sequence[ModelHealth]) -> list[Problem]:
    """Return the blocking problems of the cluster and of each model, those that require action first."""
    found = [] if snapshot.problem is None else [snapshot.problem]
    # A sleeping model need not fit: its nodes may have been released as well.
    misfits = {
        name: _no_room(snapshot, misfit)
        for name, misfit in snapshot.misfits.items()
        if name is None or not snapshot.sleeps(name)
    }
    head = misfits.get(None)
    if (
        head is not None
        and not snapshot.asleep
        and not snapshot.ray.ready
        and (snapshot.problem is None or not snapshot.problem.stalled)
    ):
        found.append(head)
    for model in models:
        misfit = misfits.get(model.name)
        stuck = model.problem is None or model.problem.reason is Reason.UNSCHEDULABLE
        if misfit is not None and stuck and not model.answering and not model.replicas:
            found.append(misfit)
        elif model.problem is not None and model.problem is not snapshot.problem:
            message = f"model {model.name}: {model.problem.message}"
            found.append(Problem(model.problem.reason, message, model.problem.stalled))
    return sorted(found, key=lambda problem: not problem.stalled)


def _no_room(snapshot: Snapshot, misfit: fit.Misfit) -> Problem:
    models = [model.name for model in snapshot.service.spec.models]
    waking = models if misfit.model is None else [misfit.model]
    waits = any(snapshot.node_wait(model) is not None for model in waking)
    return no_node_fits(misfit.message, KIND, waking=waits)


def to_act_on(snapshot: Snapshot, models: Sequence[ModelHealth], blocked: Problem | None) -> list[Problem]:
    """Return the problems that require action."""
    if blocked is not None:
        return [blocked]
    return [problem for problem in in_the_way(snapshot, models) if problem.stalled]
