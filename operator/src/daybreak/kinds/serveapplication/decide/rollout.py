"""Observed progress of a change of an application."""

from daybreak.api.gates.rollout import RolloutStrategy
from daybreak.api.gates.sleep import SleepDepth
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.objects.marks import Marks
from daybreak.kinds.serveapplication.objects.revisions import built_of, files_of
from daybreak.kinds.serveapplication.observe import fit
from daybreak.ray.views.ray_pods import unschedulable
from daybreak.ray.views.ray_service_view import RUNNING
from daybreak.rollouts.history import History
from daybreak.rollouts.machine import SETTLE
from daybreak.rollouts.revisions import Revision
from daybreak.rollouts.strategy import Change
from daybreak.scheduling import claim
from daybreak.workloads.rolled import Course


def course(view: View) -> Course:
    """Return the observed progress of a change of an application."""
    observed, ray, sleep, history = view.observed, view.ray, view.observed.sleep_state, view.observed.history
    assert history is not None and history.built is not None  # noqa: S101, PT018 - checked by the caller
    built, target = history.built, observed.target
    carried_out = _carried_out(view, built)
    coming = [pod for pod in view.pods if ray.upgrading and pod.cluster == ray.pending]
    no_room = unschedulable(coming)
    short = no_room is not None and observed.now - no_room[0] >= claim.PATIENCE
    crowded = None
    if (
        target is not None
        and observed.nodes is not None
        and observed.booked is not None
        and observed.fit_checked
    ):
        crowded = fit.crowded(target, observed.nodes, observed.booked)
    return Course(
        carried_out=carried_out,
        answers=carried_out and _answers(view, history, built),
        asleep=observed.asleep is not None,
        vacated=sleep is not None and sleep.asleep is SleepDepth.CLUSTER and (not ray.exists or ray.leaving),
        beside=ray.upgrading,
        changes=_changes(view, history),
        crowded=crowded,
        no_room=no_room[1] if no_room is not None and short else "",
        problems=view.problem.message if view.problem is not None and view.problem.stalled else "",
        filling=view.without_code and not view.made,
    )


def _changes(view: View, history: History) -> dict[str, Change]:
    """Return the changes from the running state to the revisions that may be next."""
    if not view.made:
        return {}
    was, found = Marks.of(view.observed.ray_service), {}
    for revision in history.next:
        other = built_of(view.application, revision)
        if other is not None:
            found[revision.name] = was.to(Marks.desired(other, files_of(revision)))
    return found


def _carried_out(view: View, built: Revision) -> bool:
    """Return True if the RayService is what the revision requests."""
    if not view.made or not view.ray.observed:
        return False
    change = Marks.of(view.observed.ray_service).to(Marks.desired(view.application, files_of(built)))
    return not change.restarts


def _answers(view: View, history: History, built: Revision) -> bool:
    """Return True if the application runs with the revision.

    The application is not probed. A revision in another Ray cluster runs when that cluster serves. In the
    same cluster, Serve's report may be of the previous revision for some seconds.
    """
    state, ray, now = history.state, view.ray, view.observed.now
    runs = ray.application is not None and ray.application.status == RUNNING
    if not runs or not view.answering or ray.upgrading:
        return False
    if (
        state is None
        or state.current_revision != built.name
        or state.last_successful_revision == state.current_revision
    ):
        return True
    if state.strategy is RolloutStrategy.BLUE_GREEN:
        desired = Marks.desired(view.application, files_of(built))
        serving = [each for each in view.observed.ray_clusters if each["metadata"]["name"] == ray.active]
        return any(not Marks.of(each).to(desired).pods for each in serving)
    soon = state.start_time is not None and now - state.start_time < SETTLE
    return not (soon and state.strategy is RolloutStrategy.IN_PLACE)
