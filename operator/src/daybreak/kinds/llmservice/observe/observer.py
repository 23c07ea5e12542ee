"""Gathering, once, everything that one reconcile decides on."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, text
from daybreak.api.llmservice import validation
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.custom_object import read_object
from daybreak.controller.watching.booked_watch import BookedWatch
from daybreak.controller.watching.fit_watch import FitWatch
from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.turn_watch import TurnWatch, Workload
from daybreak.gates import reads
from daybreak.gates.gateways.gateway_rejected import rejection
from daybreak.gates.gateways.port_allocator import PortAllocator
from daybreak.gates.traffic import Heard, Traffic, clusters_in_use, together
from daybreak.kinds.llmservice.objects.revisions import applied
from daybreak.kinds.llmservice.observe.claims import claims
from daybreak.kinds.llmservice.observe.observed import GatewayView, Observed
from daybreak.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RAY_CLUSTERS,
    RAY_SERVICES,
    SERVICES,
)
from daybreak.kube.watching.cache import Cache, Key
from daybreak.kube.watching.watches import Watches
from daybreak.ray.ports import SERVE
from daybreak.ray.views.ray_pods import HEAD, pod_views
from daybreak.rollouts.record import state_of
from daybreak.scheduling import fit


class GatewaySource(Protocol):
    """Who knows what gateways say."""

    def heard(self, service: Key) -> tuple[Heard | None, ...]:
        """What each gateway of its namespace says of a service; None: that one is not heard."""
        ...

    def remains(self, namespace: str) -> bool:
        """Whether anything of a namespace's gateway is there."""
        ...


class Observer:
    """Reads the cache and what gateways say, if there are any; asks the API server nothing.

    Args:
        cache: What is known of the cluster.
        watches: Fill the cache.
        gateways: Knows what gateways say; None: there never were any.
        wanted: Whether services are reached through gateways; else those that are there go.
        enqueue: Called with a service that is to be looked at again.
        nodes: Knows the nodes; None: it looks itself.
        turns: Knows whose turn it is among all workloads; None: among LLMServices alone.
        ports: Gives out the gateways' ports; None: to LLMServices alone.
        booked: Knows what pods hold on nodes; None: it looks itself.
    """

    def __init__(
        self,
        cache: Cache,
        watches: Watches,
        gateways: GatewaySource | None,
        wanted: bool = True,
        enqueue: Callable[[Key], None] = lambda _: None,
        nodes: NodeWatch | None = None,
        turns: TurnWatch | None = None,
        ports: PortAllocator | None = None,
        booked: BookedWatch | None = None,
    ) -> None:
        self._cache = cache
        self._watches = watches
        self._gateways = gateways
        self._wanted = wanted
        self._ports = ports or PortAllocator(cache, enqueue)
        self._fit = FitWatch()
        self._booked = booked or BookedWatch(cache)
        self._nodes = nodes or NodeWatch(cache, watches)
        self._turns = turns or TurnWatch(self._nodes, lambda workload, _: enqueue(workload.key))

    def observe(self, key: Key) -> Observed | None:
        """What is seen of an LLMService, or None when there is none."""
        manifest = self._cache.get(LLM_SERVICES, key)
        if manifest is None:
            self._ports.forget(key)
            self._fit.forget(key)
            self._turns.forget(Workload(LLM_SERVICES.kind, key))
            return None
        service, problems = read(manifest)
        written, known = service, reads.kept_revisions(self._cache, key, manifest["metadata"]["uid"])
        decided = state_of(manifest.get("status") or {})
        if written is not None and decided is not None and decided.answered is not None:
            # Before anything has answered there is nothing to go back to: it is built as it is written.
            service = applied(written, decided.revision, known) or written
        gateway = self._gateway(key, manifest, service)
        if gateway is not None and not gateway.port:
            first, last = names.GATEWAY_PORTS
            problems = (*problems, f"the namespace's gateway serves {last - first + 1} services, no more")
            gateway = replace(gateway, port=first)
        seen = Observed(
            manifest=manifest,
            service=service,
            problems=problems,
            kuberay_installed=self._watches.kuberay_installed,
            nodes=self._nodes.nodes(),
            gateway=gateway,
            written=written if written is not service else None,
            known_revisions=known,
            now=datetime.now(UTC),
        )
        checked = service if seen.fit_checked else None
        self._fit.note(key, checked, seen.nodes, lambda asked: fit.questions(asked.workload))
        seen = self._with_objects(key, seen)
        if seen.wanted != seen.own_revision:
            seen = replace(seen, booked=self._booked.booked())
        own = Workload(LLM_SERVICES.kind, key)
        return replace(seen, turns=self._turns.turns(own, claims(seen), seen.now))

    def _gateway(
        self, key: Key, manifest: Mapping[str, Any], service: LLMService | None
    ) -> GatewayView | None:
        """The gateway before a service; its port is 0 when it has none for it."""
        if self._gateways is None:
            return None
        past = False
        if not self._wanted:
            front = self._cache.get(SERVICES, Key(key.namespace, names.front_service(key.name)))
            leads_there = at(front, "spec", "selector") == names.gateway_selector()
            known_there = bool(at(manifest, "status", "gate"))
            if not (leads_there or known_there) or not self._gateways.remains(key.namespace):
                return None
            past = front is not None and not leads_there
        heard = self._gateways.heard(key)
        return GatewayView(
            self._ports.of(key) or 0,
            _traffic(service, heard),
            clusters_in_use(heard),
            leaving=not self._wanted,
            past=past,
            rejected=rejection(self._cache.get(DEPLOYMENTS, Key(key.namespace, names.GATEWAY))),
        )

    async def concerned_by_nodes(self) -> Collection[Key]:
        """The services of which the fit check says something else now than when they were observed."""
        return await self._fit.concerned(self._nodes.nodes())

    def again(self, key: Key, seen: Observed) -> Observed:
        """The objects of now, with the spec of that observation: a newer spec has its own reconcile."""
        if self._cache.uid(LLM_SERVICES, key) != seen.manifest["metadata"]["uid"]:
            return seen  # the objects of now may be a successor's
        gateway = seen.gateway
        if gateway is not None and self._gateways is not None:
            heard = self._gateways.heard(key)
            gateway = replace(gateway, traffic=_traffic(seen.service, heard), clusters=clusters_in_use(heard))
        return self._with_objects(key, replace(seen, gateway=gateway, now=datetime.now(UTC)))

    def _with_objects(self, key: Key, seen: Observed) -> Observed:
        return replace(
            seen,
            ray_service=self._cache.get(RAY_SERVICES, Key(key.namespace, names.ray_service(key.name))),
            ray_clusters=tuple(self._cache.of_service(RAY_CLUSTERS, key)),
            pods=tuple(self._cache.of_service(PODS, key)),
            jobs=tuple(self._cache.of_service(JOBS, key)),
            claims=tuple(self._cache.of_service(PERSISTENT_VOLUME_CLAIMS, key)),
        )


def read(manifest: Mapping[str, Any]) -> tuple[LLMService | None, tuple[str, ...]]:
    """An LLMService from its manifest, and what is wrong with it."""
    return read_object(manifest, LLMService.from_manifest, validation.problems)


def _traffic(service: LLMService | None, gateways: Sequence[Heard | None]) -> dict[str, Traffic]:
    models = [model.name for model in service.spec.models] if service is not None else []
    return {model: together(gateways, model, models) for model in models}


def active_cluster(ray_service: Mapping[str, Any] | None) -> str | None:
    """Name of the RayCluster that KubeRay sends requests to; None until there is one."""
    status = (ray_service or {}).get("status") or {}
    name = (status.get("activeServiceStatus") or {}).get("rayClusterName")
    return str(name) if name else None


def base_url(seen: Observed, service: LLMService) -> str | None:
    """Where models are asked; None when there is nobody to ask.

    Behind a gateway it is the head of the active cluster itself: a question must get through while the gate
    holds everybody else's.
    """
    if seen.gateway is None:
        return names.url(service.name, service.namespace)
    cluster = active_cluster(seen.ray_service)
    for pod in pod_views(seen.pods):
        ip = text(at(pod.manifest, "status").get("podIP"))
        if pod.role == HEAD and pod.cluster == cluster and pod.counts and ip:
            return f"http://[{ip}]:{SERVE}/v1" if ":" in ip else f"http://{ip}:{SERVE}/v1"
    return None
