"""What a service's objects should be, beside what they are."""

from dataclasses import dataclass
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.api.llmservice.definition import LLM_SERVICES, LLMService
from daybreak.kinds.llmservice.decide.caches import caches, unfilled
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.observe.observer import active_cluster
from daybreak.kube.apply import Applier, is_controlled_by, is_orphan_of, key_of
from daybreak.kube.cache import Cache, Key, controller
from daybreak.kube.resources import OWNED, PERSISTENT_VOLUME_CLAIMS, RAY_SERVICES, of
from daybreak.platform import Platform


@dataclass(frozen=True)
class Target:
    """An owned object as it should be and as it is."""

    wanted: dict[str, Any]
    live: dict[str, Any] | None


@dataclass(frozen=True)
class Plan:
    """What a service's objects should be, and what stands in the way."""

    targets: tuple[Target, ...]
    surplus: tuple[dict[str, Any], ...]
    """Objects of ours that the service does not have any more."""
    foreign: tuple[str, ...]
    """Names that somebody else has taken, as `Kind/name`."""
    leaving: bool
    """Whether objects of a deleted service of the same name are still there."""
    filling: bool
    """Whether the RayService and what belongs to it stay as they are until weights are complete."""


async def make_plan(seen: Observed, platform: Platform, cache: Cache, applier: Applier) -> Plan | None:
    """The plan for a service; None when its spec cannot be built, or nothing shall be built of it."""
    service = seen.service
    if service is None or seen.problems or seen.manifest["metadata"].get("deletionTimestamp"):
        return None
    targets, foreign, leaving = [], [], False
    port = seen.gateway.port if seen.gateway else None
    asleep = seen.sleep_state.asleep if seen.gateway else None
    copies = caches(seen, service)
    filling = asleep is None and not all(copy.complete for copy in copies)
    active = active_cluster(seen.ray_service)
    for wanted in desired(service, platform, active, port, asleep, unfilled(copies)):
        if of(wanted) is RAY_SERVICES and (filling or not seen.kuberay_installed):
            continue
        live = await applier.live(wanted)
        if live is not None and not is_controlled_by(live, service.uid):
            if _of_predecessor(live, service):
                leaving = True
            elif not is_orphan_of(live, service.name):
                foreign.append(f"{wanted['kind']}/{wanted['metadata']['name']}")
        targets.append(Target(wanted, live))
    surplus = [
        live
        for live in _surplus(seen, service, targets, cache)
        # What runs may have the weights of a claim that is not wanted any more.
        if not (filling and of(live) in (RAY_SERVICES, PERSISTENT_VOLUME_CLAIMS))
    ]
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving, filling)


def _surplus(
    seen: Observed, service: LLMService, targets: list[Target], cache: Cache
) -> list[dict[str, Any]]:
    key = Key(service.namespace, service.name)
    kept = {(of(target.wanted), key_of(target.wanted)) for target in targets}
    return [
        live
        for resource in OWNED
        if resource is not RAY_SERVICES or seen.kuberay_installed
        for live in cache.of_service(resource, key)
        if is_controlled_by(live, service.uid) and (resource, key_of(live)) not in kept
    ]


def _of_predecessor(live: Manifest, service: LLMService) -> bool:
    """Whether it belongs to a deleted LLMService of the same name: the garbage collector will take it."""
    owner = controller(live)
    return owner is not None and owner.get("kind") == LLM_SERVICES.kind and owner.get("name") == service.name
