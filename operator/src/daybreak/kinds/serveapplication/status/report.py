"""The status of a ServeApplication, put together from what was decided."""

from datetime import datetime
from typing import Any

from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import at, mappings, parse_time, text, whole
from daybreak.api.gates.gate_status import GateBackend, WakePhases
from daybreak.api.gates.rollout import RolloutStatus
from daybreak.api.serveapplication.status import DeploymentStatus, ServeApplicationStatus
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.ray.views.ray_pods import HEAD
from daybreak.rollouts import record
from daybreak.workloads import report
from daybreak.workloads.outcome import Outcome, Rolled
from daybreak.workloads.view import View as AnyView

_MOST = 64


def status(view: View, outcome: Outcome) -> ServeApplicationStatus:
    """The status as it should be."""
    state, rolled = outcome.sleep, outcome.rolled
    active = view.ray.active if not view.ray.leaving else ""
    asleep = state is not None and state.asleep is not None
    backends = [GateBackend(cluster=active)] if active and not asleep else []
    said = view.serve.deployments if view.serve is not None and not asleep else {}
    return ServeApplicationStatus(
        **report.common(view, outcome, backends, _steps).fields(),
        url=view.url,
        ray_cluster=active or None,
        deployments=[DeploymentStatus(name=name, status=said[name].status) for name in sorted(said)][:_MOST],
        gpus=view.gpus,
        rollout=_rollout(view, rolled),
        answered=None if asleep else view.answered or None,
    )


def as_before(seen: Observed, reason: Reason, message: str) -> ServeApplicationStatus:
    """The status of one that is being deleted, or cannot be read: what was there before stays."""
    before = seen.status
    found = [
        DeploymentStatus(name=text(each.get("name")), status=text(each.get("status")))
        for each in mappings(before.get("deployments"))
    ]
    return ServeApplicationStatus(
        **report.as_before(seen, reason, message).fields(),
        url=text(before.get("url")) or None,
        ray_cluster=text(before.get("rayCluster")) or None,
        deployments=found[:_MOST],
        gpus=whole(before.get("gpus")),
        rollout=record.kept(before),
        answered=text(before.get("answered")) or None,
    )


def _rollout(view: View, rolled: Rolled | None) -> RolloutStatus | None:
    """The last change; as it was where its revisions are not known at this moment."""
    if rolled is None:
        return record.kept(view.seen.status)
    return record.said(rolled.state, rolled.history.revisions, rolled.limit)


def _steps(view: AnyView[Any, Any], started: datetime, before: WakePhases | None) -> WakePhases | None:
    """The steps of a wake that are done."""
    pods = [pod for pod in view.current_pods if pod.counts]
    found: dict[str, int] = {}
    for head in pods:
        if head.role != HEAD:
            continue
        made = parse_time(text(at(head.manifest, "metadata").get("creationTimestamp")))
        ready = report.since(head, "Ready")
        if made is not None:
            found["objects"] = report.seconds_after(started, made)
        if ready is not None:
            found["head_ready"] = report.seconds_after(started, ready)
    known = (before or WakePhases()).model_copy(update=found)
    return report.pod_steps(view, [pod for pod in pods if pod.role != HEAD], started, known)
