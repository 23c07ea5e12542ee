"""Everything that a batch stands for, in the order in which it is applied."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.kinds.llmbatch.objects.metadata import metadata
from daybreak.kinds.llmbatch.objects.network_policy import network_policy
from daybreak.kinds.llmbatch.objects.ray_job import ray_job
from daybreak.platform import Platform


def desired(batch: LLMBatch, platform: Platform, *, running: bool = True) -> list[dict[str, Any]]:
    """Objects of the batch: what pods need comes before the RayJob that makes them.

    Args:
        batch: The batch.
        platform: Settings of the installation.
        running: Whether there is to be a job; a suspended batch has none.
    """
    objects: list[dict[str, Any]] = []
    if batch.spec.runtime.service_account_name is None:
        objects.append(_service_account(batch))
    if platform.network_policy:
        objects.append(network_policy(batch, platform))
    if running:
        objects.append(ray_job(batch, platform))
    return objects


def _service_account(batch: LLMBatch) -> dict[str, Any]:
    """The account of the pods where the user has named none: without rights, its token mounted nowhere."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(batch, names.service_account(batch.workload.name), "batch"),
        "automountServiceAccountToken": False,
    }
