"""Plan for a service's objects, from the desired and live objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.gates.sleep_state import SleepState
from daybreak.kinds.llmservice.decide.caches import CacheView, caches, unfilled
from daybreak.kinds.llmservice.decide.defaults import change, choose
from daybreak.kinds.llmservice.objects import cache_jobs
from daybreak.kinds.llmservice.objects.built_with import BuiltWith
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.kinds.llmservice.objects.revisions import built_of, controller_revision
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.manifests import compare
from daybreak.manifests.keys import Key
from daybreak.manifests.owner import NameHolder, Owner
from daybreak.manifests.plan import Live, Plan, Target, named
from daybreak.manifests.resources import OWNED, PERSISTENT_VOLUME_CLAIMS, RAY_SERVICES, of
from daybreak.platform import Platform
from daybreak.ray.views.ray_service_view import ray_view
from daybreak.rollouts import revisions
from daybreak.rollouts.strategy import Change


@dataclass(frozen=True)
class ServicePlan(Plan):
    """Plan for a service's objects."""

    filling: bool
    """True if the RayService and its objects stay unchanged until weights are complete."""
    own: BuiltWith | None
    """Record of this operator's build of the RayService. None if there must be no RayService."""
    changes: Mapping[str, Change]
    """Change to each other revision that is requested, by revision name."""


def objects(observed: Observed, platform: Platform) -> list[dict[str, Any]]:
    """Return the objects of a service whose spec can be built, first those that others need."""
    service = observed.subject
    assert service is not None  # noqa: S101 - checked by the caller
    copies = caches(observed, service)
    every = (
        *_in_use(observed, _revisions(observed, service)),
        *_objects(observed, service, platform, copies),
    )
    built = observed.kuberay_installed and not _filling(observed, copies)
    return [each for each in every if built or of(each) is not RAY_SERVICES]


def make_plan(
    observed: Observed, platform: Platform, desired_objects: Sequence[dict[str, Any]], live_objects: Live
) -> ServicePlan:
    """Return the plan for a service whose spec can be built.

    Args:
        observed: Observation of the service.
        platform: Settings of the installation.
        desired_objects: Desired objects of the service.
        live_objects: Live objects of the service.
    """
    service = observed.subject
    assert service is not None  # noqa: S101 - checked by the caller
    owner = Owner(LLM_SERVICES, Key(service.namespace, service.name), service.uid)
    targets, foreign, leaving = [], [], False
    filling = _filling(observed, caches(observed, service))
    own: BuiltWith | None = None
    kept = _revisions(observed, service)
    for expected in desired_objects:
        live = live_objects.find(expected)
        whose = owner.whose(live) if live is not None else NameHolder.OURS
        if whose is NameHolder.PREDECESSORS:
            leaving = True
        elif whose is NameHolder.FOREIGN:
            foreign.append(named(expected))
        elif whose is NameHolder.ORPHAN:
            pass  # adopted in its desired form
        elif of(expected) is RAY_SERVICES and live is not None and _stays(observed):
            kept.append(expected)
            continue
        elif of(expected) is RAY_SERVICES:
            at_present = replace(service, asleep=observed.without_replicas)
            choice = choose(observed, at_present, platform, live, partial(_equal, live), expected)
            own = choice.own
            if choice.desired is None:
                kept += [expected] * (not choice.replaced)
                continue
            expected = choice.desired
        targets.append(Target(expected, live))
    surplus = [
        live
        for live in live_objects.surplus(
            owner,
            [each for each in OWNED if each is not RAY_SERVICES or observed.kuberay_installed],
            [*(target.desired for target in targets), *kept],
        )
        # Running pods may use the weights of a PVC that is no longer desired.
        if not (filling and of(live) in (RAY_SERVICES, PERSISTENT_VOLUME_CLAIMS))
    ]
    changes = _changes(observed, service, platform)
    return ServicePlan(tuple(targets), tuple(surplus), tuple(foreign), leaving, filling, own, changes)


def _filling(observed: Observed, copies: Sequence[CacheView]) -> bool:
    """Return True if a model that must run waits for weights in its cache."""
    return not all(copy.complete for copy in copies if copy.model not in observed.given_back)


def _revisions(observed: Observed, service: LLMService) -> list[Manifest]:
    """Return the ControllerRevisions to keep or to create."""
    in_use = observed.history.in_use if observed.history is not None else frozenset()
    stay = revisions.kept(observed.revisions, in_use, service.spec.rollout.revision_history_limit)
    return [controller_revision(service, each) for each in stay]


def _in_use(observed: Observed, kept: Sequence[Manifest]) -> list[dict[str, Any]]:
    """Return the given ControllerRevisions that are in use and must exist."""
    in_use = observed.history.in_use if observed.history is not None else frozenset()
    return [dict(each) for each in kept if each["metadata"]["name"] in in_use]


def _objects(
    observed: Observed, service: LLMService, platform: Platform, copies: Sequence[CacheView]
) -> list[dict[str, Any]]:
    """Return the service's objects, after those that only the next revision needs."""
    past = observed.gateway is not None and (
        observed.gateway.past or bypasses_gateway(observed, observed.sleep_states)
    )
    objects = desired(
        service,
        platform,
        ray_view(observed.ray_service).active or None,
        observed.gateway.port if observed.gateway else None,
        observed.asleep,
        observed.without_replicas,
        unfilled(copies),
        past_gateway=past,
    )
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    ahead = [
        each for each in _ahead(observed, platform) if (each["kind"], each["metadata"]["name"]) not in names
    ]
    return [*ahead, *objects]


def _stays(observed: Observed) -> bool:
    """Return True if the RayService stays unchanged until its deletion, because another one replaces it."""
    return observed.rollout is not None and observed.rollout.replaces and bool(observed.sleep_states)


def _ahead(observed: Observed, platform: Platform) -> list[dict[str, Any]]:
    """Return the objects for a revision that waits to replace another one: copies of its weights."""
    target, state = observed.target, observed.rollout
    if target is None or state is None or state.target_revision is None:
        return []
    views = caches(observed, target)
    return [*cache_jobs.claims(target), *cache_jobs.jobs(target, platform, unfilled(views))]


def _changes(observed: Observed, service: LLMService, platform: Platform) -> dict[str, Change]:
    """Return the changes to the revisions that may be next: building each takes milliseconds."""
    found = {}
    for revision in observed.history.next if observed.history is not None else ():
        other = built_of(service, revision)
        change_to = change(observed, other, platform, observed.ray_service) if other is not None else None
        if change_to is not None:
            found[revision.name] = change_to
    return found


def _equal(live: Manifest | None, desired: Manifest) -> bool:
    """Return True if an object matches a manifest, metadata aside."""
    return live is not None and not compare.difference({"metadata": {}, "spec": desired["spec"]}, live)


def bypasses_gateway(observed: Observed, sleep_states: Mapping[str, SleepState]) -> bool:
    """Return True if clients can reach the service without the departing gateway."""
    if not sleep_states or observed.gateway is None or not observed.gateway.leaving:
        return False
    ray = ray_view(observed.ray_service)
    up = all(
        state.gate is GateState.OPEN and state.phase is not Phase.WAKING for state in sleep_states.values()
    )
    return up and bool(ray.active) and ray.ready
