"""Observer of ServeApplications, in addition to the observer of all workloads with one gate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.custom_object import read_object
from daybreak.api.serveapplication import validation
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.controller.parts import Parts
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.serveapplication.observe import fit
from daybreak.kinds.serveapplication.observe.history import built, config_maps, history_of
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.kube.watching.config_map_watch import ConfigMapWatch
from daybreak.loop import observer
from daybreak.loop.kept_revisions import kept_revisions
from daybreak.loop.observer import GatewaySource
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import RAY_CLUSTERS, RAY_SERVICES
from daybreak.scheduling.fit import Question


class Observer(observer.Observer[Observed]):
    """Observer of ServeApplications that reads the cache and the gateways' reports, never the API server.

    Args:
        parts: Dependencies of every kind.
        gateways: Source of the gateways' reports. None if there are no gateways.
        ports: Allocator of the gateways' ports.
        code: Watch of the ConfigMaps with code.
    """

    resource = SERVE_APPLICATIONS

    def __init__(
        self, parts: Parts, gateways: GatewaySource | None, ports: PortAllocator, code: ConfigMapWatch
    ) -> None:
        super().__init__(parts, gateways, ports)
        self._code = code

    def forget(self, key: Key) -> None:
        """Drop the data of a deleted application."""
        self._code.forget(key)

    def questions(self, subject: ServeApplication) -> Sequence[Question]:
        """Return the fit check's questions about the nodes for an application."""
        return fit.questions(subject)

    def read(self, manifest: Manifest, now: datetime) -> Observed:
        """Return the observation of the application as it is currently built, with its revisions."""
        written, problems = read(manifest)
        observed = Observed(manifest, written, problems, now)
        if written is None:
            return observed
        key = Key(written.namespace, written.name)
        kept = kept_revisions(self._cache, self.owner(key), written.uid)
        contents = self._code.contents(key, config_maps(written, manifest, kept))
        ray_service, ray_clusters = self._ray(key)
        history = history_of(written, manifest, kept, contents, ray_service, ray_clusters)
        subject = built(written, history)
        return replace(
            observed,
            subject=subject,
            written=written if subject is not written else None,
            history=history,
            contents=contents,
        )

    def objects(self, key: Key, observed: Observed) -> Observed:
        """Add the RayService and its Ray clusters."""
        ray_service, ray_clusters = self._ray(key)
        return replace(
            observed,
            contents=self._code.contents(key, observed.contents),
            kuberay_installed=self._watches.kuberay_installed,
            ray_service=ray_service,
            ray_clusters=ray_clusters,
        )

    def _ray(self, key: Key) -> tuple[Manifest | None, tuple[Manifest, ...]]:
        name = Key(key.namespace, names.ray_service(key.name))
        found = self._cache.get(RAY_SERVICES, name)
        own = found is not None and name in {
            Key(each["metadata"]["namespace"], each["metadata"]["name"])
            for each in self._cache.owned_by(self.owner(key), RAY_SERVICES)
        }
        # A RayService of this name may belong to a service of the same name.
        return found if own else None, tuple(self._cache.owned_by(self.owner(key), RAY_CLUSTERS))


def read(manifest: Mapping[str, Any]) -> tuple[ServeApplication | None, tuple[str, ...]]:
    """Return the ServeApplication that a manifest describes, and the problems of its spec."""
    return read_object(manifest, ServeApplication.from_manifest, validation.problems)
