"""Status of a ServeApplication, built from the decision."""

from daybreak.api.common.conditions import Reason
from daybreak.api.gates.gate_status import GateBackend
from daybreak.api.gates.rollout import RolloutStatus
from daybreak.api.serveapplication.status import DeploymentStatus, ServeApplicationStatus
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.rollouts import record
from daybreak.workloads import report
from daybreak.workloads.outcome import Outcome
from daybreak.workloads.rolled import Rolled

_MOST = 64


def status(view: View, outcome: Outcome) -> ServeApplicationStatus:
    """Return the desired status of the application."""
    rolled, asleep = outcome.rolled, view.sleeps(outcome.gates.states)
    active = view.ray.active if not view.ray.leaving else ""
    backends = [GateBackend(cluster=active)] if active and not asleep else []
    message = view.serve.deployments if view.serve is not None and not asleep else {}
    return ServeApplicationStatus(
        **report.common(view, outcome, backends).fields(),
        url=view.url,
        ray_cluster=active or None,
        deployments=[DeploymentStatus(name=name, status=message[name].status) for name in sorted(message)][
            :_MOST
        ],
        accelerators=view.gpus,
        rollout=_rollout(view, rolled),
        probed_configuration=None if asleep else view.answered or None,
    )


def as_before(observed: Observed, reason: Reason, message: str) -> ServeApplicationStatus:
    """Return the previous status for an application that is being deleted or whose spec is invalid."""
    return report.as_before(ServeApplicationStatus, observed, reason, message)


def _rollout(view: View, rolled: Rolled | None) -> RolloutStatus | None:
    """Return the status of the last change, or the previous one while its revisions are unknown."""
    if rolled is None:
        return record.kept(view.observed.status)
    return record.rollout_status(rolled.state, rolled.history.revisions, rolled.limit)
