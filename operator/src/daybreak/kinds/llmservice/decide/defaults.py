"""Choice between this operator's defaults and those of the older operator that built the RayService.

A new image, a new version of Ray or another line in a pod template needs a second Ray cluster, and therefore
every accelerator twice. An upgrade of the operator alone therefore changes nothing that runs. New defaults
apply only if nothing runs, or if the user's own change needs new replicas or pods anyway.
"""

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType
from daybreak.api.common.unstructured import Manifest, at, condition, mapping, mappings, text, whole
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.status import ModelState
from daybreak.kinds.llmservice.objects.built_with import BuiltWith, adopted
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.platform import Platform
from daybreak.ray.cluster_config import NUMBERS
from daybreak.ray.serve.replica_range import replica_range
from daybreak.ray.serve.serve_config import with_numbers
from daybreak.ray.views.ray_pods import pod_views
from daybreak.ray.views.ray_service_view import ray_view
from daybreak.rollouts.strategy import Change
from daybreak.scheduling.replica_size import pods_per_replica


@dataclass(frozen=True)
class Choice:
    """Decision on a RayService."""

    desired: dict[str, Any] | None
    """Desired RayService. None to leave it unchanged."""
    own: BuiltWith
    """Record of this operator's build."""
    replaced: bool = False
    """True if the existing RayService is deleted and then recreated."""


def choose(
    observed: Observed,
    svc: LLMService,
    platform: Platform,
    live: Manifest | None,
    equal: Callable[[Any], bool],
    built: dict[str, Any] | None = None,
) -> Choice:
    """Choose the RayService of a service that has one or needs one.

    Args:
        observed: Observation of the service.
        svc: The service, with the current desired number of replicas.
        platform: Settings of the installation.
        live: The existing RayService.
        equal: Return True if the existing RayService matches a manifest.
        built: Result of `ray_service` for this service and platform, if known. Building it takes a
            millisecond.
    """
    was = BuiltWith.of(live) if live is not None else None
    known = was or (adopted(svc, live) if live is not None else None)
    ray_version = _known_ray_version(svc, known)
    plain = built if built is not None and not ray_version else ray_service(svc, platform, ray_version)
    desired = _built(observed, svc, platform, ray_version, live, plain)
    own = _record(desired)
    if live is None:
        return Choice(desired, own)
    if at(live, "metadata").get("deletionTimestamp"):
        return Choice(None, own)
    if was is None or not was.operator:
        if equal(desired):
            return Choice(desired, own)
        if was is None and whole(observed.status.get("observedGeneration")) != svc.generation:
            return Choice(desired, own)
        was = known
    assert was is not None  # noqa: S101 - there is a RayService
    if was.same(own):
        record = replace(was, wishes=own.wishes, spec=own.spec, running=own.running)
        return Choice(_recorded(desired, record), own)
    still = is_stopped(observed)
    if still and not at(live, "status", "activeServiceStatus").get("rayClusterName"):
        # The RayService has never served. KubeRay would keep its pods for minutes, and they use accelerators
        # or trigger new nodes.
        return Choice(None, own, replaced=True)
    if was.wishes != own.wishes:
        return Choice(desired, own)
    if observed.asleep is not None:
        # Only a head runs: a second one alongside it would serve no requests.
        return Choice(None, own, replaced=True)
    if svc.spec.runtime.follow_defaults or still:
        return Choice(desired, own)
    return Choice(_as_built(observed, svc, platform, live, was), own)


def change(observed: Observed, svc: LLMService, platform: Platform, live: Manifest | None) -> Change | None:
    """Return the change from the RayService to one of this service, or None if there is no RayService.

    The service may be that of another revision.
    """
    if live is None or observed.subject is None:
        return None
    was = BuiltWith.of(live) or adopted(observed.subject, live)
    record = _record(ray_service(svc, platform, _known_ray_version(svc, was)))
    if was.wishes == record.wishes:
        return Change(pods=False, restarts=False)
    pods = was.cluster != record.cluster
    return Change(pods=pods, restarts=pods or was.configuration != record.configuration)


def is_stopped(observed: Observed) -> bool:
    """Return True if no model runs until action is taken, so that other defaults can only help."""
    if condition(observed.status, ConditionType.STALLED).get("status") != "True":
        return False
    up = (ModelState.READY, ModelState.UPDATING, ModelState.ASLEEP)
    return not any(text(model.get("state")) in up for model in mappings(observed.status.get("models")))


def _known_ray_version(svc: LLMService, was: BuiltWith | None) -> str:
    """Return the recorded version of Ray in an image that the spec names; empty if there is no record.

    The version is recorded when the image is first used, if the spec does not specify it. A new operator does
    not change the content of that image.
    """
    own_image = svc.spec.runtime.image
    return was.ray_version if was is not None and own_image is not None and was.image == own_image else ""


def _built(
    observed: Observed,
    svc: LLMService,
    platform: Platform,
    ray_version: str,
    live: Manifest | None,
    plain: dict[str, Any],
    kept: BuiltWith | None = None,
) -> dict[str, Any]:
    """Return the RayService; a new Ray cluster starts with the number of replicas that run now.

    The replicas are counted once, when the RayService is changed, and the number stays until the next change.
    `plain` is the RayService without that number. With `kept`, the Ray cluster stays that of the record,
    regardless of this operator's build.
    """
    record, was = _record(plain), BuiltWith.of(live) if live is not None else None
    if live is None or was is None:
        return plain
    if was.cluster != (kept or record).cluster:
        running = _running(observed, svc, live)
    elif was.spec == record.spec:
        # A sleeping model wakes with its initial number of replicas.
        running = {model: count for model, count in was.running.items() if model not in svc.asleep}
    else:
        # For a change in place, Serve determines the number of replicas, unless a second cluster is starting.
        ray = ray_view(live)
        running = _running(observed, svc, live) if ray.upgrading or not ray.observed else {}
    return ray_service(svc, platform, ray_version, running) if running else plain


def _running(observed: Observed, svc: LLMService, live: Manifest) -> dict[str, int]:
    """Return the running replicas of the active Ray cluster, by model, if they exceed the spec."""
    active = ray_view(live).active
    found = Counter(
        pod.group for pod in pod_views(observed.pods) if pod.cluster == active and pod.counts and pod.placed
    )
    running = {}
    for model in svc.spec.models:
        allowed = replica_range(svc.workload, model)
        count = min(found[names.worker_group(model.name)] // pods_per_replica(model), allowed.max)
        moves = svc.spec.replicas is None and model.name not in svc.asleep
        if moves and count > allowed.initial:
            running[model.name] = count
    return running


def _as_built(
    observed: Observed, svc: LLMService, platform: Platform, live: Manifest, was: BuiltWith
) -> dict[str, Any] | None:
    """Return the RayService with its original defaults and the current numbers, or None to leave it."""
    image = was.image
    before = replace(
        platform,
        ray_image=image,
        ray_cpu_image=image,
        ray_head_image=was.head_image,
        assigned_users=was.assigned_users,
    )
    plain = ray_service(svc, before, was.ray_version)
    again = _built(observed, svc, before, was.ray_version, live, plain, was)
    now = replace(was, spec=_record(again).spec, running=_record(again).running)
    if _record(again).same(was):
        return _recorded(again, now)
    # The older operator built other pods, which this one cannot build: their configuration is copied.
    config = _with_numbers(mapping(at(live, "spec").get("rayClusterConfig")), again)
    workload = replace(svc.workload, running=now.running)
    served = with_numbers(text(at(live, "spec").get("serveConfigV2")), workload)
    kept = {"rayClusterConfig": config, "serveConfigV2": served}
    recorded = BuiltWith.of(live) is not None
    if recorded and all(at(live, "spec").get(name) == value for name, value in kept.items()):
        return None
    return _recorded({**again, "spec": {**again["spec"], **kept}}, now)


def _with_numbers(cluster: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {
        group["groupName"]: {name: group[name] for name in NUMBERS}
        for group in desired["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    }
    config = copy.deepcopy(dict(cluster))
    for group in config.get("workerGroupSpecs") or ():
        group.update(numbers.get(group.get("groupName"), {}))
    return config


def _record(built: Mapping[str, Any]) -> BuiltWith:
    record = BuiltWith.of(built)
    assert record is not None  # noqa: S101 - of a RayService that has just been built
    return record


def _recorded(built: dict[str, Any], record: BuiltWith) -> dict[str, Any]:
    metadata = built["metadata"]
    annotations = metadata["annotations"] | record.annotations()
    return {**built, "metadata": {**metadata, "annotations": annotations}}
