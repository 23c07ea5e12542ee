"""What a benchmark's objects should be, beside what they are."""

from dataclasses import dataclass
from typing import Any

from daybreak.api.common import names
from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS, LLMBenchmark
from daybreak.controller.writer import Target as Written
from daybreak.controller.writer import is_of_predecessor, surplus_of
from daybreak.kinds.llmbenchmark.objects.desired import desired
from daybreak.kinds.llmbenchmark.objects.target import Target
from daybreak.kube.apply import Applier, is_controlled_by, is_orphan_of
from daybreak.kube.cache import Cache, Key
from daybreak.kube.resources import JOBS, OF_BENCHMARKS, of
from daybreak.platform import Platform


@dataclass(frozen=True)
class Plan:
    """What a benchmark's objects should be, and what stands in the way."""

    targets: tuple[Written, ...]
    surplus: tuple[dict[str, Any], ...]
    """Objects of ours that the benchmark does not have any more."""
    foreign: tuple[str, ...]
    """Names that somebody else has taken, as `Kind/name`."""
    leaving: bool
    """Whether objects on their way out are still there, which must go before others of their name come."""


async def make_plan(
    benchmark: LLMBenchmark, target: Target | None, platform: Platform, cache: Cache, applier: Applier
) -> Plan:
    """The plan for a benchmark."""
    owner = owner_of(Key(benchmark.namespace, benchmark.name))
    targets: list[Written] = []
    foreign: list[str] = []
    leaving = False
    objects = desired(benchmark, target, platform)
    for wanted in objects:
        live = await applier.live(wanted)
        if live is not None:
            if live["metadata"].get("deletionTimestamp") or is_of_predecessor(
                live, LLM_BENCHMARKS, benchmark.name, benchmark.uid
            ):
                leaving = True
                continue
            mine = is_controlled_by(live, benchmark.uid)
            if not mine and not is_orphan_of(live, owner.name):
                foreign.append(f"{wanted['kind']}/{wanted['metadata']['name']}")
            elif of(wanted) is JOBS:
                # What a Job runs cannot be changed, and one that runs stays as it is to its end.
                continue
        targets.append(Written(wanted, live))
    surplus = surplus_of(cache, owner, benchmark.uid, OF_BENCHMARKS, objects)
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving)


def owner_of(key: Key) -> Key:
    """What stands for a benchmark in the cache."""
    return Key(key.namespace, names.of_benchmark(key.name))
