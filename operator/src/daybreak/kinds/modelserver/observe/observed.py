"""Everything that one reconcile of a ModelServer decides on."""

from dataclasses import dataclass

from daybreak.api.common.unstructured import Manifest
from daybreak.api.modelserver.definition import ModelServer
from daybreak.kinds.modelserver.observe import fit
from daybreak.rollouts.history import History
from daybreak.scheduling.fit import Misfit
from daybreak.scheduling.nodes import Node
from daybreak.workloads import observed


@dataclass(frozen=True)
class Observed(observed.OneGate[ModelServer]):
    """What is seen of a ModelServer at one moment. `subject` is what it is built of: not what is written,
    where that waits or could not start."""

    deployment: Manifest | None = None
    """What makes its pods: a Deployment, or a LeaderWorkerSet where a replica has several nodes."""
    leader_worker_set_installed: bool = True
    """Whether the API server serves LeaderWorkerSets."""
    history: History | None = None
    """Its revisions; None: its spec has not the form of the API."""
    target: ModelServer | None = None
    """It as it is asked for; None where that cannot be read."""

    def misfits_of(self, subject: ModelServer, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """What of one fits on no node."""
        return fit.misfits(subject, nodes)
