"""Observed progress of a change of a server."""

from datetime import timedelta

from daybreak.api.common.unstructured import at, whole
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.rollout import RolloutStatus, RolloutStrategy
from daybreak.api.modelserver.definition import ModelServer
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.observe import fit
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.ray.views.ray_pods import unschedulable
from daybreak.rollouts.machine import RolloutState
from daybreak.rollouts.strategy import Change
from daybreak.scheduling import claim
from daybreak.workloads.rolled import Course

_ONE_MORE = "one more pod"
_NODES = timedelta(seconds=15)
"""Interval of checks of the nodes for a change that fits on none. Changes of nodes are only reported for the
running revision."""


def course(view: View) -> Course:
    """Return the observed progress of a change of a server."""
    observed, state = view.observed, view.observed.sleep_state
    replacing = state is not None and state.phase is Phase.REPLACING
    coming = observed.history.next if view.made and observed.history is not None else ()
    changes = {each.name: Change(pods=True, restarts=True) for each in coming}
    no_room = unschedulable(view.current_pods) if view.relieved else None
    return Course(
        carried_out=view.carried_out,
        answers=view.carried_out and bool(view.ready_now) and view.answered == view.current,
        asleep=observed.asleep is not None,
        vacated=observed.asleep is not None and replacing and _vacated(view),
        beside=view.relieved,
        changes=changes,
        crowded=_crowded(observed) if changes else None,
        second=_ONE_MORE,
        apart=_apart(view) if changes else "",
        no_room=no_room[1] if no_room is not None and _scheduler_has(view) is None else "",
        problems=view.problem.message if view.problem is not None and view.problem.stalled else "",
        look_again=_scheduler_has(view),
        nodes_after=_NODES,
    )


def unproven(state: RolloutState | RolloutStatus | None) -> bool:
    """Return True if new pods start alongside others, and no pod like them has answered yet."""
    if state is None or state.strategy is not RolloutStrategy.BLUE_GREEN:
        return False
    return (
        state.last_successful_revision is not None
        and state.last_successful_revision != state.current_revision
    )


def _apart(view: View) -> str:
    """Return why new pods cannot serve alongside the running ones; empty if they can."""
    server, target = view.server, view.observed.target
    if target is None:
        return ""
    if server.spec.nodes > 1 or target.spec.nodes > 1:
        return "a replica on several nodes is replaced as a whole, and its previous pods are not kept"
    if _request_target(server) == _request_target(target):
        return ""
    return "gateways send its pods requests for one model, at one port and path, and these change"


def _request_target(server: ModelServer) -> tuple[str, str, int, str]:
    return server.spec.model.name, server.protocol, server.profile.port, server.readiness_path


def _scheduler_has(view: View) -> timedelta | None:
    """Return how much longer the scheduler may look for capacity for an additional pod, or None."""
    stuck = unschedulable(view.current_pods) if view.relieved else None
    if stuck is None:
        return None
    left = stuck[0] + claim.PATIENCE - view.observed.now
    return left if left > timedelta(0) else None


def _vacated(view: View) -> bool:
    """Return True if all pods have ended."""
    scaled_to_zero = not whole(at(view.observed.deployment, "spec").get("replicas"))
    return scaled_to_zero and all(pod.over for pod in view.pods)


def _crowded(observed: Observed) -> str | None:
    """Return why there is no capacity for one more pod now; empty if there is, or None if that is unknown.

    If the fit check is off, the nodes give no answer: new ones may join, or others may be used by more than
    pods.
    """
    target = observed.target
    if target is None or observed.nodes is None or observed.booked is None or not observed.fit_checked:
        return None
    return fit.crowded(target, observed.nodes, observed.booked)
