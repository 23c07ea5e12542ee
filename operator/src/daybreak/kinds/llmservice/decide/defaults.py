"""Whether a service's RayService is built with this operator's defaults, or stays as an older one built it.

A new image, a new version of Ray or another line in a pod's template needs a second Ray cluster, and with it
every accelerator twice. So an upgrade of the operator alone changes nothing of what runs: new defaults are
taken where nothing runs, or where the person's own change needs new replicas or pods anyway.
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
    """What becomes of a RayService."""

    wanted: dict[str, Any] | None
    """As it is to be; None: it is left as it is."""
    own: BuiltWith
    """What this operator builds with."""
    replaced: bool = False
    """Whether the one that is there goes, and another is made when it has gone."""


def choose(
    seen: Observed,
    svc: LLMService,
    platform: Platform,
    live: Manifest | None,
    equal: Callable[[Any], bool],
    built: dict[str, Any] | None = None,
) -> Choice:
    """Choose for a service that has a RayService, or is to have one.

    Args:
        seen: What is seen of the service.
        svc: The service, with the replicas that it is to have at present.
        platform: Settings of the installation.
        live: The RayService that is there.
        equal: Whether that one is what a manifest asks for.
        built: What `ray_service` makes of service and platform, where that is known: it takes a millisecond.
    """
    was = BuiltWith.of(live) if live is not None else None
    known = was or (adopted(svc, live) if live is not None else None)
    ray_version = _known_ray_version(svc, known)
    plain = built if built is not None and not ray_version else ray_service(svc, platform, ray_version)
    wanted = _built(seen, svc, platform, ray_version, live, plain)
    own = _record(wanted)
    if live is None:
        return Choice(wanted, own)
    if at(live, "metadata").get("deletionTimestamp"):
        return Choice(None, own)
    if was is None or not was.operator:
        if equal(wanted):
            return Choice(wanted, own)
        if was is None and whole(seen.status.get("observedGeneration")) != svc.generation:
            return Choice(wanted, own)
        was = known
    assert was is not None  # noqa: S101 - there is a RayService
    if was.same(own):
        record = replace(was, wishes=own.wishes, spec=own.spec, running=own.running)
        return Choice(_recorded(wanted, record), own)
    still = stands_still(seen)
    if still and not at(live, "status", "activeServiceStatus").get("rayClusterName"):
        # It has never served. KubeRay would keep its pods for minutes: they hold accelerators, or draw nodes.
        return Choice(None, own, replaced=True)
    if was.wishes != own.wishes:
        return Choice(wanted, own)
    if seen.asleep is not None:
        # Nothing runs but a head: a second one beside it would serve nobody.
        return Choice(None, own, replaced=True)
    if svc.spec.runtime.follow_defaults or still:
        return Choice(wanted, own)
    return Choice(_as_built(seen, svc, platform, live, was), own)


def change(seen: Observed, svc: LLMService, platform: Platform, live: Manifest | None) -> Change | None:
    """What it takes to come from a RayService to one of this service, which may be another revision's.

    None: no RayService is there.
    """
    if live is None or seen.subject is None:
        return None
    was = BuiltWith.of(live) or adopted(seen.subject, live)
    record = _record(ray_service(svc, platform, _known_ray_version(svc, was)))
    if was.wishes == record.wishes:
        return Change(pods=False, restarts=False)
    pods = was.cluster != record.cluster
    return Change(pods=pods, restarts=pods or was.configuration != record.configuration)


def stands_still(seen: Observed) -> bool:
    """Whether no model runs, and none will until somebody acts: so other defaults can only mend it."""
    if condition(seen.status, ConditionType.STALLED).get("status") != "True":
        return False
    up = (ModelState.READY, ModelState.UPDATING, ModelState.ASLEEP)
    return not any(text(model.get("state")) in up for model in mappings(seen.status.get("models")))


def _known_ray_version(svc: LLMService, was: BuiltWith | None) -> str:
    """The version of Ray in an image that the spec names: the one that was written when it was first used,
    where the spec does not say it. A new operator does not change what is in that image."""
    own_image = svc.spec.runtime.image
    return was.ray_version if was is not None and own_image is not None and was.image == own_image else ""


def _built(
    seen: Observed,
    svc: LLMService,
    platform: Platform,
    ray_version: str,
    live: Manifest | None,
    plain: dict[str, Any],
    kept: BuiltWith | None = None,
) -> dict[str, Any]:
    """The RayService, where a new Ray cluster begins with as many replicas as run now.

    That is counted once, when the RayService is changed, and stays as it is until the next change. `plain`:
    it without that. `kept`: the Ray cluster stays the one of that record, whatever this operator builds.
    """
    record, was = _record(plain), BuiltWith.of(live) if live is not None else None
    if live is None or was is None:
        return plain
    if was.cluster != (kept or record).cluster:
        running = _running(seen, svc, live)
    elif was.spec == record.spec:
        # A model that sleeps begins anew when it wakes.
        running = {model: count for model, count in was.running.items() if model not in svc.asleep}
    else:
        # In place: Serve knows best how many there are to be, unless a second cluster is on its way.
        ray = ray_view(live)
        running = _running(seen, svc, live) if ray.upgrading or not ray.observed else {}
    return ray_service(svc, platform, ray_version, running) if running else plain


def _running(seen: Observed, svc: LLMService, live: Manifest) -> dict[str, int]:
    """Replicas that run in the Ray cluster that serves, by model, where there are more than the spec says."""
    active = ray_view(live).active
    found = Counter(
        pod.group for pod in pod_views(seen.pods) if pod.cluster == active and pod.counts and pod.placed
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
    seen: Observed, svc: LLMService, platform: Platform, live: Manifest, was: BuiltWith
) -> dict[str, Any] | None:
    """The RayService with the defaults that it was built with, and the numbers of now."""
    image = was.image
    before = replace(
        platform,
        ray_image=image,
        ray_cpu_image=image,
        ray_head_image=was.head_image,
        assigned_users=was.assigned_users,
    )
    plain = ray_service(svc, before, was.ray_version)
    again = _built(seen, svc, before, was.ray_version, live, plain, was)
    now = replace(was, spec=_record(again).spec, running=_record(again).running)
    if _record(again).same(was):
        return _recorded(again, now)
    # That operator's pods were others, which this one does not know how to build: they are taken over.
    config = _with_numbers(mapping(at(live, "spec").get("rayClusterConfig")), again)
    workload = replace(svc.workload, running=now.running)
    served = with_numbers(text(at(live, "spec").get("serveConfigV2")), workload)
    kept = {"rayClusterConfig": config, "serveConfigV2": served}
    recorded = BuiltWith.of(live) is not None
    if recorded and all(at(live, "spec").get(name) == value for name, value in kept.items()):
        return None
    return _recorded({**again, "spec": {**again["spec"], **kept}}, now)


def _with_numbers(cluster: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {
        group["groupName"]: {name: group[name] for name in NUMBERS}
        for group in wanted["spec"]["rayClusterConfig"]["workerGroupSpecs"]
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
