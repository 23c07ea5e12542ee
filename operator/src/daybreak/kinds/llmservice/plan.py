"""What a service's objects should be, beside what they are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.api.gates.gate_status import GateState, Phase
from daybreak.api.llmservice.definition import LLM_SERVICES, LLMService
from daybreak.gates.state_machine import SleepState
from daybreak.kinds.llmservice.decide.caches import caches, unfilled
from daybreak.kinds.llmservice.decide.defaults import choose
from daybreak.kinds.llmservice.objects.built_with import BuiltWith
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.observe.observer import active_cluster
from daybreak.kube import compare
from daybreak.kube.apply import Applier, is_controlled_by, is_orphan_of, key_of
from daybreak.kube.cache import Cache, Key, controller
from daybreak.kube.resources import OWNED, PERSISTENT_VOLUME_CLAIMS, RAY_SERVICES, of
from daybreak.platform import Platform
from daybreak.ray.views.ray_service_view import ray_view


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
    own: BuiltWith | None
    """What this operator builds the RayService with; None: there is none to be."""


async def make_plan(seen: Observed, platform: Platform, cache: Cache, applier: Applier) -> Plan | None:
    """The plan for a service; None when its spec cannot be built, or nothing shall be built of it."""
    service = seen.service
    if service is None or seen.problems or seen.manifest["metadata"].get("deletionTimestamp"):
        return None
    targets, foreign, leaving = [], [], False
    port = seen.gateway.port if seen.gateway else None
    copies = caches(seen, service)
    filling = not all(copy.complete for copy in copies if copy.model not in seen.given_back)
    active = active_cluster(seen.ray_service)
    own, kept = None, []
    past = seen.gateway is not None and (seen.gateway.past or led_past(seen, seen.sleep_states))
    objects = desired(
        service,
        platform,
        active,
        port,
        seen.asleep,
        seen.given_back,
        unfilled(copies),
        past_gateway=past,
    )
    for wanted in objects:
        if of(wanted) is RAY_SERVICES and (filling or not seen.kuberay_installed):
            continue
        live = await applier.live(wanted)
        if live is not None and not is_controlled_by(live, service.uid):
            if _of_predecessor(live, service):
                leaving = True
            elif not is_orphan_of(live, service.name):
                foreign.append(f"{wanted['kind']}/{wanted['metadata']['name']}")
        elif of(wanted) is RAY_SERVICES:
            at_present = replace(service, asleep=seen.given_back)
            choice = choose(seen, at_present, platform, live, partial(_equal, live))
            own = choice.own
            if choice.wanted is None:
                kept += [wanted] * (not choice.replaced)
                continue
            wanted = choice.wanted
        targets.append(Target(wanted, live))
    surplus = [
        live
        for live in _surplus(seen, service, [*(target.wanted for target in targets), *kept], cache)
        # What runs may have the weights of a claim that is not wanted any more.
        if not (filling and of(live) in (RAY_SERVICES, PERSISTENT_VOLUME_CLAIMS))
    ]
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving, filling, own)


def _equal(live: Manifest | None, wanted: Manifest) -> bool:
    """Whether an object is what a manifest asks for, metadata aside."""
    return live is not None and not compare.difference({"metadata": {}, "spec": wanted["spec"]}, live)


def led_past(seen: Observed, sleep_states: Mapping[str, SleepState]) -> bool:
    """Whether a gateway that goes is needed for the service no more: what is behind it answers clients."""
    if not sleep_states or seen.gateway is None or not seen.gateway.leaving:
        return False
    ray = ray_view(seen.ray_service)
    up = all(
        state.gate is GateState.OPEN and state.phase is not Phase.WAKING for state in sleep_states.values()
    )
    return up and bool(ray.active) and ray.ready


def _surplus(
    seen: Observed, service: LLMService, wanted: list[Manifest], cache: Cache
) -> list[dict[str, Any]]:
    key = Key(service.namespace, service.name)
    kept = {(of(manifest), key_of(manifest)) for manifest in wanted}
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
