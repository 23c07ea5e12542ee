"""Status of a ModelServer, built from the decision."""

from daybreak.api.common import names
from daybreak.api.common.conditions import Reason
from daybreak.api.gates.gate_status import GateBackend
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.kinds.modelserver.decide import autoscaling, rollout
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.rollouts import record
from daybreak.workloads import report
from daybreak.workloads.outcome import Outcome


def status(view: View, outcome: Outcome) -> ModelServerStatus:
    """Return the desired status of the server."""
    server, rolled = view.server, outcome.rolled
    asleep = view.sleeps(outcome.gates.states)
    proven = view.answered if rolled is not None and rollout.unproven(rolled.state) else ""
    pods = GateBackend(
        cluster=server.owner,
        port=server.profile.port,
        health_path=server.readiness_path,
        configuration_hash=proven or None,
    )
    return ModelServerStatus(
        **report.common(view, outcome, [pods]).fields(),
        url=view.url,
        replicas=len(view.ready),
        autoscaling=autoscaling.scaled(view, asleep=asleep),
        accelerators=view.gpus,
        selector=names.owner_selector(server.owner),
        probed_configuration=None if asleep else view.answered or None,
        crash=view.crash,
        rollout=None
        if rolled is None
        else record.rollout_status(rolled.state, rolled.history.revisions, rolled.limit),
    )


def as_before(observed: Observed, reason: Reason, message: str) -> ModelServerStatus:
    """Return the previous status for a server that is being deleted or whose spec is invalid."""
    return report.as_before(ModelServerStatus, observed, reason, message)
