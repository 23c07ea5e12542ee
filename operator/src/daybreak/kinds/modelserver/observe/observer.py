"""Observer of ModelServers, in addition to the observer of all workloads with one gate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest
from daybreak.api.modelserver import validation
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.profiles import Engines
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.api.schema.custom_object import read_object
from daybreak.controller.parts import Parts
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.modelserver.objects.revisions import built_of, with_own
from daybreak.kinds.modelserver.observe import fit
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.loop import observer
from daybreak.loop.kept_revisions import kept_revisions
from daybreak.loop.observer import GatewaySource
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import DEPLOYMENTS, LEADER_WORKER_SETS
from daybreak.rollouts.history import History
from daybreak.rollouts.revisions import Revision
from daybreak.scheduling.fit import Question


class Observer(observer.Observer[Observed]):
    """Observer of ModelServers that reads the cache and the gateways' reports, never the API server.

    Args:
        parts: Dependencies of every kind.
        gateways: Source of the gateways' reports. None if there are no gateways.
        ports: Allocator of the gateways' ports.
        engines: Available engines, by name.
    """

    resource = MODEL_SERVERS

    def __init__(
        self,
        parts: Parts,
        gateways: GatewaySource | None,
        ports: PortAllocator,
        engines: Engines,
    ) -> None:
        super().__init__(parts, gateways, ports)
        self._engines = engines

    def questions(self, subject: ModelServer) -> Sequence[Question]:
        """Return the fit check's questions about the nodes for a server."""
        return fit.questions(subject)

    def read(self, manifest: Manifest, now: datetime) -> Observed:
        """Return the observation of a manifest and its kept revisions."""
        written, problems = read(manifest, self._engines)
        metadata = manifest["metadata"]
        owner = self.owner(Key(metadata["namespace"], metadata["name"]))
        known = kept_revisions(self._cache, owner, metadata["uid"])
        return as_built(Observed(manifest, written, problems, now), known, self._engines)

    def objects(self, key: Key, observed: Observed) -> Observed:
        """Add the Deployment or LeaderWorkerSet."""
        name = Key(key.namespace, names.server_deployment(key.name))
        several = observed.subject is not None and observed.subject.spec.nodes > 1
        return replace(
            observed,
            deployment=self._cache.get(LEADER_WORKER_SETS if several else DEPLOYMENTS, name),
            leader_worker_set_installed=self._watches.leader_worker_set_installed,
        )


def as_built(observed: Observed, known: Sequence[Revision], engines: Engines) -> Observed:
    """Add the revisions, and replace `subject` by the server of the current revision.

    Before any pod has answered there is no revision to return to, so the server is built as written. The same
    applies if its revision does not exist or is no longer valid, because the current spec is then the only
    known one.
    """
    written = observed.subject
    if written is None:
        return observed
    own, every = with_own(written, known)
    history = History(observed.manifest, written.spec.rollout, own, every)
    decided, built = history.state, None
    if (
        decided is not None
        and decided.last_successful_revision is not None
        and decided.current_revision != own.name
    ):
        present = history.named(decided.current_revision)
        built = built_of(written, present, engines) if present is not None else None
    history = replace(history, as_written=built is None)
    desired = history.desired or own
    target = written if desired == own else built_of(written, desired, engines)
    return replace(observed, subject=built or written, history=history, target=target)


def read(
    manifest: Mapping[str, Any], engines: Engines | None = None
) -> tuple[ModelServer | None, tuple[str, ...]]:
    """Return the ModelServer that a manifest describes, and the problems of its spec.

    `engines` are the available engines. Defaults to those of every installation.
    """
    return read_object(manifest, partial(ModelServer.from_manifest, engines=engines), validation.problems)
