"""What a batch's objects should be, beside what they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import at
from daybreak.api.llmbatch.definition import LLM_BATCHES, LLMBatch
from daybreak.controller.writer import Target, is_of_predecessor, surplus_of
from daybreak.kinds.llmbatch.objects.desired import desired
from daybreak.kube.apply import Applier, is_controlled_by, is_orphan_of
from daybreak.kube.cache import Cache, Key
from daybreak.kube.resources import OF_BATCHES, RAY_JOBS, of
from daybreak.platform import Platform


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
            if live["metadata"].get("deletionTimestamp") or is_of_predecessor(
                live, LLM_BATCHES, batch.name, batch.uid
            ):
                leaving = True
                continue
            mine = is_controlled_by(live, batch.uid)
            if not mine and not is_orphan_of(live, batch.workload.name):
                foreign.append(f"{wanted['kind']}/{wanted['metadata']['name']}")
            elif of(wanted) is RAY_JOBS and mine and _built_otherwise(live, wanted):
                # Another operator has made it, and it runs: it stays as it is to its end.
                continue
        targets.append(Target(wanted, live))
    owned = [resource for resource in OF_BATCHES if resource is not RAY_JOBS or kuberay]
    surplus = surplus_of(cache, owner_of(Key(batch.namespace, batch.name)), batch.uid, owned, objects)
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving)


def _built_otherwise(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    there = at(live, "metadata", "annotations").get(names.RAY_CLUSTER_ANNOTATION)
    return there is not None and there != wanted["metadata"]["annotations"][names.RAY_CLUSTER_ANNOTATION]


def owner_of(key: Key) -> Key:
    """What stands for a batch in the cache."""
    return Key(key.namespace, names.of_batch(key.name))
