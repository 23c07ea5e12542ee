"""Conditions of a service that follow from its models alone, and its phase without a gateway.

The messages contain no time and no number of attempts, so that the same state gives the same status, byte by
byte.
"""

from collections.abc import Mapping, Sequence

from daybreak.api.common.conditions import Reason, ShortCondition
from daybreak.api.gates.gate_status import Phase
from daybreak.api.llmservice.status import ModelState
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.problems.problem import Problem
from daybreak.rollouts.strategy import Change


def with_adapters(ready: ShortCondition, wrong: Sequence[str]) -> ShortCondition:
    """Return the condition `Ready` with the adapters that cannot be used: the models answer without them."""
    status, reason, message = ready
    return (status, reason, "; ".join([message, *wrong])) if status == "True" else ready


def restarting(
    ready: ShortCondition, revision: str, built: str, changes: Mapping[str, Change]
) -> ShortCondition:
    """Return the condition `Ready` for a status that adopts a revision which restarts engines in place.

    The RayService changes in the next reconcile. Until then the engines answer with the previous revision, so
    `Ready=True` with the new generation would end `kubectl wait` too early.

    Args:
        ready: The condition according to the observation.
        revision: Revision from which the service is built from now on.
        built: Revision of this reconcile.
        changes: Change to each revision, by its name.
    """
    change = changes.get(revision)
    if ready[0] != "True" or revision == built or change is None or not change.restarts:
        return ready
    return "Unknown", Reason.UPDATING, "the engines restart with the new configuration"


def taking_up(reconciling: ShortCondition, adapters: Sequence[str]) -> ShortCondition:
    """Return the condition `Reconciling` with the adapters being loaded, if nothing else is in progress."""
    if not adapters or reconciling[0] == "True" or reconciling[1] is not Reason.RECONCILED:
        return reconciling
    return "True", Reason.UPDATING, f"replicas are loading {', '.join(adapters)}"


def active(
    notes: Sequence[str], models: Sequence[ModelHealth], held_back: Problem | None, *, waking: bool
) -> ShortCondition:
    """Return the condition `Active`: True if accelerators are in use. `notes` end the message.

    A pod uses no accelerators before it is on a node.
    """
    reported = "".join(f"; {note}" for note in notes)
    held = [model for model in models if model.gpus or model.placed]
    waiting = any(model.pods for model in models)
    waits = [f"model {model.name}: {model.doing}" for model in models if model.in_line]
    if held:
        message = "worker pods are on nodes for " + ", ".join(model.name for model in held)
        return "True", Reason.AWAKE, f"{'; '.join([message, *waits])}{reported}"
    awake = any(model.state is not ModelState.ASLEEP for model in models)
    if held_back is not None and awake and not waiting:
        return "False", held_back.reason, f"no worker pods: creation is blocked, see Stalled{reported}"
    if waits:
        return "False", Reason.WAITING_FOR_ACCELERATORS, f"{'; '.join(waits)}{reported}"
    if waking:
        # In the decision to wake, the models still sleep.
        doing = [
            f"; model {model.name}: {model.doing}" for model in models if model.state is not ModelState.ASLEEP
        ]
        which = "no worker pod is on a node yet" if waiting else "no worker pod exists yet"
        return "False", Reason.WAKING, f"waking, {which}{''.join(doing)}{reported}"
    if all(model.state is ModelState.ASLEEP for model in models):
        return "False", Reason.ASLEEP, f"no worker pods; a request wakes its model{reported}"
    which = "the worker pods wait for a node" if waiting else "no worker pod exists yet"
    return "False", Reason.STARTING, f"{which}{reported}"


def progress(snapshot: Snapshot, models: Sequence[ModelHealth], ready: ShortCondition) -> ShortCondition:
    """Return the progress towards the spec, by the models and the Ray clusters."""
    ray = snapshot.ray
    if snapshot.asleep:
        return "False", Reason.RECONCILED, "asleep, as the spec and the traffic require"
    if ray.upgrading:
        message = f"a new Ray cluster, {ray.pending}, is starting alongside {ray.active}"
        return _second_cluster(message, models, [snapshot.problem] if snapshot.problem else [])
    if snapshot.first:
        message = f"requests go to {snapshot.first} until every model of {ray.active} has answered"
        return _second_cluster(message, models, [])
    if ready[0] != "True":
        updating = ready[1] is Reason.UPDATING
        return "True", Reason.UPDATING if updating else Reason.PROGRESSING, ready[2]
    few = [model for model in models if model.replicas < model.desired]
    if few:
        message = "; ".join(
            f"model {model.name}: {model.replicas} of {model.desired} replicas ready"
            + (f", {model.problem.message}" if model.problem else "")
            for model in few
        )
        return "True", Reason.PROGRESSING, message
    if not ray.observed or ray.application is None or not ray.application.settled:
        return "True", Reason.UPDATING, "a change is in progress"
    return "False", Reason.RECONCILED, "all objects match the spec"


def _second_cluster(
    message: str, models: Sequence[ModelHealth], problems: Sequence[Problem]
) -> ShortCondition:
    waits = [f"model {model.name}: {model.problem.message}" for model in models if model.problem]
    waits += [problem.message for problem in problems]
    return "True", Reason.UPDATING, "; ".join([message, *dict.fromkeys(waits)])


def filling(snapshot: Snapshot) -> ShortCondition:
    """Return the condition `Reconciling` while weights are copied into PVCs."""
    message = "; ".join(f"model {view.model}: {view.doing}" for view in snapshot.filling)
    return "True", Reason.FILLING_CACHE, message


def phase(
    snapshot: Snapshot,
    models: Sequence[ModelHealth],
    ready: ShortCondition,
    stalled: Sequence[Problem],
) -> Phase:
    """Return the phase of a service without a gateway."""
    if stalled and ready[0] != "True":
        return Phase.FAILED
    if all(model.state is ModelState.ASLEEP for model in models):
        return Phase.ASLEEP
    if snapshot.ray.upgrading or any(model.state is ModelState.UPDATING for model in models):
        return Phase.UPDATING
    return Phase.AWAKE if ready[0] == "True" else Phase.WAKING
