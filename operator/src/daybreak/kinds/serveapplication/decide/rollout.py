"""How a change of an application reaches what runs: what the rollouts' machine is told, and decides."""

from datetime import timedelta

from daybreak.api.common.conditions import Reason
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.rollout import RolloutStrategy
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.objects.marks import Marks
from daybreak.kinds.serveapplication.objects.revisions import built_of, files_of
from daybreak.kinds.serveapplication.observe import fit
from daybreak.problems.redact import excerpt
from daybreak.ray.views.ray_pods import unschedulable
from daybreak.ray.views.ray_service_view import RUNNING
from daybreak.rollouts.deadline import deadline
from daybreak.rollouts.history import History
from daybreak.rollouts.machine import SETTLE, Situation, Wish, look_again, step
from daybreak.rollouts.revisions import Revision
from daybreak.rollouts.strategy import Change, Surroundings
from daybreak.scheduling import claim
from daybreak.workloads.rolled import Rolled

_REFUSAL_LIMIT = 2000
"""How much is told of what the API server says, in characters."""


def rolled(view: View) -> Rolled | None:
    """What becomes of a change; as it was, where something keeps the spec from being applied."""
    history = view.seen.history
    if history is None:
        return None
    gate = view.seen.gate
    limit = deadline(history.rollout.deadline, (gate.wake if gate is not None else None,))
    wish, built = history.wish, history.built
    blocked = view.blocked
    held_up = blocked is not None and blocked.reason is not Reason.REFUSED
    if held_up or wish is None or built is None:
        return None if history.state is None else Rolled(history, history.state, limit)
    situation = _situation(view, history, wish, built, limit)
    state = step(history.state, situation, wish)
    return Rolled(history, state, limit, look_again(state, situation))


def _situation(view: View, history: History, wish: Wish, built: Revision, limit: timedelta) -> Situation:
    seen, ray, sleep = view.seen, view.ray, view.seen.sleep_state
    replacing = sleep is not None and sleep.phase is Phase.REPLACING
    carried_out = _carried_out(view, built)
    target = _target(view, history)
    coming = [pod for pod in view.pods if ray.upgrading and pod.cluster == ray.pending]
    no_room = unschedulable(coming)
    short = no_room is not None and seen.now - no_room[0] >= claim.PATIENCE
    crowded = None
    if target is not None and seen.nodes is not None and seen.booked is not None and seen.fit_checked:
        crowded = fit.crowded(target, seen.nodes, seen.booked)
    return Situation(
        revision=built.name,
        known=history.known,
        changes=_changes(view, history),
        around=Surroundings(
            serving=view.answering and (sleep is None or sleep.gate is GateState.OPEN),
            holds=seen.gateway is not None,
            crowded=crowded,
            misfit=_misfit(view, target) if wish.revision != built.name else "",
        ),
        answers=carried_out and _answers(view, history, built),
        asleep=seen.asleep is not None and not replacing,
        vacated=sleep is not None and sleep.asleep is SleepDepth.CLUSTER and (not ray.exists or ray.leaving),
        beside=ray.upgrading,
        no_room=no_room[1] if no_room is not None and short else "",
        stuck=_stuck(view, carried_out=carried_out),
        filling=view.without_code and not view.made,
        limit=limit,
        now=seen.now,
    )


def _changes(view: View, history: History) -> dict[str, Change]:
    """What it takes to come from what runs to the revisions to which it may turn."""
    if not view.made:
        return {}
    was, found = Marks.of(view.seen.ray_service), {}
    for revision in history.next:
        other = built_of(view.application, revision)
        if other is not None:
            found[revision.name] = was.to(Marks.wanted(other, files_of(revision)))
    return found


def _carried_out(view: View, built: Revision) -> bool:
    """Whether the RayService is what the revision asks for."""
    if not view.made or not view.ray.observed:
        return False
    change = Marks.of(view.seen.ray_service).to(Marks.wanted(view.application, files_of(built)))
    return not change.restarts


def _answers(view: View, history: History, built: Revision) -> bool:
    """Whether it runs as that revision.

    It is not asked. In another Ray cluster it does when that one serves; in the same one, what Serve says may
    be of the revision before for some seconds.
    """
    state, ray, now = history.state, view.ray, view.seen.now
    runs = ray.application is not None and ray.application.status == RUNNING
    if not runs or not view.answering or ray.upgrading:
        return False
    if state is None or state.revision != built.name or state.answered == state.revision:
        return True
    if state.strategy is RolloutStrategy.BLUE_GREEN:
        wanted = Marks.wanted(view.application, files_of(built))
        serving = [each for each in view.seen.ray_clusters if each["metadata"]["name"] == ray.active]
        return any(not Marks.of(each).to(wanted).pods for each in serving)
    soon = state.started is not None and now - state.started < SETTLE
    return not (soon and state.strategy is RolloutStrategy.IN_PLACE)


def _stuck(view: View, *, carried_out: bool) -> str:
    """Why the revision cannot start; empty: it can, or what is told is of the one before."""
    if view.seen.refusal:
        return f"the API server refused {excerpt(view.seen.refusal, _REFUSAL_LIMIT)}"
    problem = view.problem
    return problem.message if problem is not None and problem.stalled and carried_out else ""


def _target(view: View, history: History) -> ServeApplication | None:
    """The application as it is asked for; None when that cannot be read."""
    asked, wanted = view.seen.asked_for, history.wanted
    if asked is None or wanted is None or wanted == history.own:
        return asked
    return built_of(asked, wanted)


def _misfit(view: View, target: ServeApplication | None) -> str:
    """What of the revision that is asked for fits on no node."""
    if target is None or view.seen.nodes is None or not view.seen.fit_checked:
        return ""
    return "; ".join(misfit.message for misfit in fit.misfits(target, view.seen.nodes))
