"""ServiceAccount of the Ray pods, which grants no rights and mounts its token nowhere by default.

KubeRay binds the account to the few rights that Ray's autoscaler needs in the namespace (see `head`).
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.ray.pods.account import account


def service_account(svc: LLMService) -> dict[str, Any]:
    """Return the account that Daybreak creates if the user has named none."""
    return account(metadata(svc, names.service_account(svc.name), "ray"))
