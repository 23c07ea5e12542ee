"""Everything that a benchmark stands for, in the order in which it is applied."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.kinds.llmbenchmark.objects.job import job
from daybreak.kinds.llmbenchmark.objects.metadata import metadata
from daybreak.kinds.llmbenchmark.objects.network_policy import network_policy
from daybreak.kinds.llmbenchmark.objects.target import Target
from daybreak.platform import Platform


def desired(benchmark: LLMBenchmark, target: Target | None, platform: Platform) -> list[dict[str, Any]]:
    """Objects of the benchmark: what a pod needs comes before the Job that makes it.

    Args:
        benchmark: The benchmark.
        target: What is measured; None: there is to be no Job.
        platform: Settings of the installation.
    """
    objects: list[dict[str, Any]] = []
    if target is None or target.runtime.service_account_name is None:
        objects.append(_service_account(benchmark))
    if platform.network_policy:
        objects.append(network_policy(benchmark, platform))
    if target is not None:
        objects.append(job(benchmark, target, platform))
    return objects


def _service_account(benchmark: LLMBenchmark) -> dict[str, Any]:
    """The account of the pod where the user has named none: without rights, its token mounted nowhere."""
    name = names.service_account(names.of_benchmark(benchmark.name))
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(benchmark, name),
        "automountServiceAccountToken": False,
    }
