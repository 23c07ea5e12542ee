"""What a batch's objects should be, beside what they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import at
from daybreak.api.llmbatch.definition import KIND, LLMBatch
from daybreak.kinds.llmbatch.objects.desired import desired
from daybreak.kube.apply import Applier, is_controlled_by, is_orphan_of, key_of
from daybreak.kube.cache import Cache, Key, controller
from daybreak.kube.resources import OF_BATCHES, RAY_JOBS, of
from daybreak.platform import Platform


@dataclass(frozen=True)
class Target:
    """An owned object as it should be and as it is."""

    wanted: dict[str, Any]
    live: dict[str, Any] | None


@dataclass(frozen=True)
class Plan:
    """What a batch's objects should be, and what stands in the way."""

    targets: tuple[Target, ...]
    surplus: tuple[dict[str, Any], ...]
    """Objects of ours that the batch does not have any more."""
    foreign: tuple[str, ...]
    """Names that somebody else has taken, as `Kind/name`."""
    leaving: bool
    """Whether objects on their way out are still there, which must go before others of their name come."""


async def make_plan(
    batch: LLMBatch, platform: Platform, cache: Cache, applier: Applier, *, running: bool, kuberay: bool
) -> Plan:
    """The plan for a batch."""
    targets: list[Target] = []
    foreign: list[str] = []
    leaving = False
    objects = desired(batch, platform, running=running)
    for wanted in objects:
        if of(wanted) is RAY_JOBS and not kuberay:
            continue
        live = await applier.live(wanted)
        if live is not None:
            if live["metadata"].get("deletionTimestamp") or _of_predecessor(live, batch):
                leaving = True
                continue
            mine = is_controlled_by(live, batch.uid)
            if not mine and not is_orphan_of(live, batch.workload.name):
                foreign.append(f"{wanted['kind']}/{wanted['metadata']['name']}")
            elif of(wanted) is RAY_JOBS and mine and _built_otherwise(live, wanted):
                # Another operator has made it, and it runs: it stays as it is to its end.
                continue
        targets.append(Target(wanted, live))
    kept = {(of(wanted), key_of(wanted)) for wanted in objects}
    owner = Key(batch.namespace, batch.workload.name)
    surplus = [
        live
        for resource in OF_BATCHES
        if resource is not RAY_JOBS or kuberay
        for live in cache.of_service(resource, owner)
        if is_controlled_by(live, batch.uid)
        and (resource, key_of(live)) not in kept
        and not live["metadata"].get("deletionTimestamp")
    ]
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving)


def _built_otherwise(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    there = at(live, "metadata", "annotations").get(names.RAY_CLUSTER_ANNOTATION)
    return there is not None and there != wanted["metadata"]["annotations"][names.RAY_CLUSTER_ANNOTATION]


def _of_predecessor(live: Mapping[str, Any], batch: LLMBatch) -> bool:
    """Whether it belongs to a deleted LLMBatch of the same name: the garbage collector will take it."""
    owner = controller(live)
    return (
        owner is not None
        and owner.get("kind") == KIND
        and owner.get("name") == batch.name
        and owner.get("uid") != batch.uid
    )


def owner_of(key: Key) -> Key:
    """What stands for a batch in the cache."""
    return Key(key.namespace, names.of_batch(key.name))
