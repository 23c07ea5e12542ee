"""All objects of a benchmark, in the order in which they are applied."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmbenchmark.definition import KIND, LLMBenchmark
from daybreak.kinds.llmbenchmark.objects.job import COMPONENT, job
from daybreak.kinds.llmbenchmark.objects.network_policy import network_policy
from daybreak.kinds.llmbenchmark.objects.target import Target
from daybreak.platform import Platform
from daybreak.ray.pods.account import account


def desired(benchmark: LLMBenchmark, target: Target | None, platform: Platform) -> list[dict[str, Any]]:
    """Return the objects of the benchmark; objects that a pod needs precede the Job that creates the pod.

    Args:
        benchmark: The benchmark.
        target: Measurement target. None if the benchmark must have no Job.
        platform: Settings of the installation.
    """
    objects: list[dict[str, Any]] = []
    if target is None or target.runtime.service_account_name is None:
        name = names.service_account(benchmark.owner)
        objects.append(account(owned_metadata(KIND, benchmark, name, COMPONENT)))
    if platform.network_policy:
        objects.append(network_policy(benchmark, platform))
    if target is not None:
        objects.append(job(benchmark, target, platform))
    return objects
