"""All objects of a batch, in the order in which they are applied."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmbatch.definition import KIND, LLMBatch
from daybreak.kinds.llmbatch.objects.network_policy import network_policy
from daybreak.kinds.llmbatch.objects.ray_job import COMPONENT, ray_job
from daybreak.platform import Platform
from daybreak.ray.pods.account import account


def desired(batch: LLMBatch, platform: Platform, *, running: bool = True) -> list[dict[str, Any]]:
    """Return the objects of the batch; objects that pods need precede the RayJob that creates the pods.

    Args:
        batch: The batch.
        platform: Settings of the installation.
        running: True if the batch must have a job. A suspended batch has none.
    """
    objects: list[dict[str, Any]] = []
    if batch.spec.runtime.service_account_name is None:
        name = names.service_account(batch.owner)
        objects.append(account(owned_metadata(KIND, batch, name, COMPONENT)))
    if platform.network_policy:
        objects.append(network_policy(batch, platform))
    if running:
        objects.append(ray_job(batch, platform))
    return objects
