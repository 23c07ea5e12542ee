"""Observer of LLMServices: gathers all inputs of one reconcile, once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.api.llmservice import validation
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.custom_object import read_object
from daybreak.controller.parts import Parts
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.llmservice.objects.revisions import applied
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.loop import observer
from daybreak.loop.kept_revisions import kept_revisions
from daybreak.loop.observer import GatewaySource
from daybreak.manifests.keys import Key, key_of
from daybreak.manifests.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, RAY_CLUSTERS, RAY_SERVICES, SERVICES
from daybreak.ray.ports import SERVE
from daybreak.ray.views.ray_pods import HEAD, pod_views
from daybreak.rollouts.record import state_of
from daybreak.scheduling import fit
from daybreak.scheduling.fit import Question
from daybreak.workloads.observed import GatewayView


class Observer(observer.Observer[Observed]):
    """Observer of LLMServices that reads the cache and the gateways' reports.

    Args:
        parts: Dependencies of every kind.
        gateways: Reports of the gateways. None if there have never been gateways.
        ports: Allocator of the gateways' ports.
    """

    resource = LLM_SERVICES

    def __init__(self, parts: Parts, gateways: GatewaySource | None, ports: PortAllocator) -> None:
        super().__init__(parts, gateways, ports)
        self._desired = bool(parts.platform.gateway_image)

    def read(self, manifest: Manifest, now: datetime) -> Observed:
        """Return the observation of a manifest and its kept revisions."""
        service, problems = read(manifest)
        metadata = manifest["metadata"]
        owner = self.owner(key_of(manifest))
        written, known = service, kept_revisions(self._cache, owner, metadata["uid"])
        decided = state_of(manifest.get("status") or {})
        if written is not None and decided is not None and decided.last_successful_revision is not None:
            # Before any model has answered there is no revision to return to: the service is built as
            # written.
            service = applied(written, decided.current_revision, known) or written
        return Observed(
            manifest=manifest,
            subject=service,
            problems=problems,
            kuberay_installed=self._watches.kuberay_installed,
            written=written if written is not service else None,
            known_revisions=known,
            now=now,
        )

    def questions(self, subject: LLMService) -> Sequence[Question]:
        """Return the fit check's questions about the nodes for a service."""
        return fit.questions(subject.workload)

    def gateway(self, key: Key, observed: Observed) -> GatewayView | None:
        """Return the gateway in front of a service, including a disabled one that is still needed."""
        found = super().gateway(key, observed)
        if found is None or self._desired or self._gateways is None:
            return found
        front = self._cache.get(SERVICES, Key(key.namespace, names.front_service(key.name)))
        leads_there = at(front, "spec", "selector") == names.gateway_selector()
        known_there = bool(at(observed.manifest, "status", "gate"))
        if not (leads_there or known_there) or not self._gateways.remains(key.namespace):
            return None
        return replace(found, leaving=True, past=front is not None and not leads_there)

    def objects(self, key: Key, observed: Observed) -> Observed:
        """Add the RayService, its Ray clusters, and the Jobs and PVCs of caches."""
        return replace(
            observed,
            ray_service=self._cache.get(RAY_SERVICES, Key(key.namespace, names.ray_service(key.name))),
            ray_clusters=tuple(self._cache.owned_by(self.owner(key), RAY_CLUSTERS)),
            jobs=tuple(self._cache.owned_by(self.owner(key), JOBS)),
            claims=tuple(self._cache.owned_by(self.owner(key), PERSISTENT_VOLUME_CLAIMS)),
        )


def read(manifest: Mapping[str, Any]) -> tuple[LLMService | None, tuple[str, ...]]:
    """Return the LLMService that a manifest describes, and the problems of its spec."""
    return read_object(manifest, LLMService.from_manifest, validation.problems)


def active_cluster(ray_service: Mapping[str, Any] | None) -> str | None:
    """Return the name of the RayCluster to which KubeRay sends requests, or None without one."""
    status = (ray_service or {}).get("status") or {}
    name = (status.get("activeServiceStatus") or {}).get("rayClusterName")
    return str(name) if name else None


def base_url(observed: Observed) -> str | None:
    """Return the base URL for probes of models, or None if no address can be probed.

    Behind a gateway it is the address of the active cluster's head: a probe must succeed while the gate holds
    requests.
    """
    if observed.gateway is None:
        service = observed.subject
        return names.url(service.name, service.namespace) if service is not None else None
    cluster = active_cluster(observed.ray_service)
    for pod in pod_views(observed.pods):
        ip = text(at(pod.manifest, "status").get("podIP"))
        if pod.role == HEAD and pod.cluster == cluster and pod.counts and ip:
            return f"http://[{ip}]:{SERVE}/v1" if ":" in ip else f"http://{ip}:{SERVE}/v1"
    return None
