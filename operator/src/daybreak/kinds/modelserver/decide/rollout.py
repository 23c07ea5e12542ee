"""How a change of a server reaches what runs: what the rollouts' machine is told, and what it decides."""

from datetime import timedelta

from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import at, whole
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.rollout import RolloutPhase, RolloutStatus, RolloutStrategy
from daybreak.api.modelserver.definition import ModelServer
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.observe import fit
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.problems.redact import excerpt
from daybreak.ray.views.ray_pods import unschedulable
from daybreak.rollouts.deadline import deadline
from daybreak.rollouts.history import History
from daybreak.rollouts.machine import RolloutState, Situation, Wish, look_again, step
from daybreak.rollouts.revisions import Revision
from daybreak.rollouts.strategy import Change, Surroundings
from daybreak.scheduling import claim
from daybreak.workloads.rolled import Rolled

_REFUSAL_LIMIT = 2000
_ONE_MORE = "one more pod"
_NODES = timedelta(seconds=15)
"""How often it is looked for nodes for a change that fits on none: what runs is what it is told of."""


def rolled(view: View) -> Rolled | None:
    """What becomes of a change; as it was, where something keeps the spec from being applied."""
    seen, history = view.seen, view.seen.history
    if history is None:
        return None
    limit = deadline(history.rollout.deadline, [seen.gate.wake if seen.gate is not None else None])
    wish, built = history.wish, history.built
    blocked = view.blocked
    held_up = blocked is not None and blocked.reason is not Reason.REFUSED
    if held_up or wish is None or built is None:
        return None if history.state is None else Rolled(history, history.state, limit)
    situation = _situation(view, history, built, wish, limit)
    state = step(history.state, situation, wish)
    waits = state.phase is RolloutPhase.BLOCKED and bool(situation.around.misfit)
    pauses = [look_again(state, situation), _scheduler_has(view), _NODES if waits else None]
    soonest = min((pause for pause in pauses if pause is not None), default=None)
    return Rolled(history, state, limit, soonest)


def unproven(state: RolloutState | RolloutStatus | None) -> bool:
    """Whether pods come beside others, and nothing like them has answered yet."""
    if state is None or state.strategy is not RolloutStrategy.BLUE_GREEN:
        return False
    return state.answered is not None and state.answered != state.revision


def _situation(view: View, history: History, built: Revision, wish: Wish, limit: timedelta) -> Situation:
    seen, state = view.seen, view.seen.sleep_state
    replacing = state is not None and state.phase is Phase.REPLACING
    coming = history.next if view.made else ()
    changes = {each.name: Change(pods=True, restarts=True) for each in coming}
    no_room = unschedulable(view.current_pods) if view.relieved else None
    return Situation(
        revision=built.name,
        known=history.known,
        changes=changes,
        around=Surroundings(
            serving=view.answering and (state is None or state.gate is GateState.OPEN),
            holds=seen.gateway is not None,
            crowded=_crowded(seen) if changes else None,
            second=_ONE_MORE,
            apart=_apart(view) if changes else "",
            misfit=_misfit(seen) if wish.revision != built.name else "",
        ),
        answers=view.carried_out and bool(view.ready_now) and view.answered == view.current,
        asleep=seen.asleep is not None and not replacing,
        vacated=seen.asleep is not None and replacing and _vacated(view),
        beside=view.relieved,
        no_room=no_room[1] if no_room is not None and _scheduler_has(view) is None else "",
        stuck=_stuck(view),
        limit=limit,
        now=seen.now,
    )


def _apart(view: View) -> str:
    """Why new pods cannot serve beside those that run; empty: they can."""
    server, target = view.server, view.seen.target
    if target is None:
        return ""
    if server.spec.nodes > 1 or target.spec.nodes > 1:
        return "a replica on several nodes comes and goes as a whole, and nothing keeps those of before"
    if _asked_at(server) == _asked_at(target):
        return ""
    return "gateways ask its pods for one model, at one port and path, and these change"


def _asked_at(server: ModelServer) -> tuple[str, str, int, str]:
    return server.spec.model.name, server.protocol, server.profile.port, server.readiness_path


def _scheduler_has(view: View) -> timedelta | None:
    """How much longer the scheduler may look for room for a pod beside others; None: it does not."""
    stuck = unschedulable(view.current_pods) if view.relieved else None
    if stuck is None:
        return None
    left = stuck[0] + claim.PATIENCE - view.seen.now
    return left if left > timedelta(0) else None


def _vacated(view: View) -> bool:
    """Whether all pods have gone."""
    none_asked = not whole(at(view.seen.deployment, "spec").get("replicas"))
    return none_asked and all(pod.over for pod in view.pods)


def _stuck(view: View) -> str:
    """Why the revision cannot start; empty: it can, or what is told is of the one before."""
    if view.seen.refusal:
        return f"the API server refused {excerpt(view.seen.refusal, _REFUSAL_LIMIT)}"
    found = view.problem
    return found.message if view.carried_out and found is not None and found.stalled else ""


def _crowded(seen: Observed) -> str | None:
    """Why there is no room now for one pod more; None: nobody can see.

    Where the fit check is off, nodes do not tell: new ones come, or they are held by other things than pods.
    """
    target = seen.target
    if target is None or seen.nodes is None or seen.booked is None or not seen.fit_checked:
        return None
    return fit.crowded(target, seen.nodes, seen.booked)


def _misfit(seen: Observed) -> str:
    """What of the revision that is asked for fits on no node."""
    if seen.target is None or seen.nodes is None or not seen.fit_checked:
        return ""
    return "; ".join(misfit.message for misfit in fit.misfits(seen.target, seen.nodes))
