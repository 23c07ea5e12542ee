"""All inputs of one reconcile of a ModelServer."""

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
    """Observation of a ModelServer at one time.

    `subject` is the server as built. It differs from the written one if that one waits or could not start.
    """

    deployment: Manifest | None = None
    """Deployment of the pods, or LeaderWorkerSet if a replica has several nodes."""
    leader_worker_set_installed: bool = True
    """True if the API server serves LeaderWorkerSets."""
    history: History | None = None
    """Revisions of the server. None if its spec is invalid."""
    target: ModelServer | None = None
    """Server as requested. None if that revision is invalid."""

    def misfits_of(self, subject: ModelServer, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """Return the pods of a server that fit on no node."""
        return fit.misfits(subject, nodes)
