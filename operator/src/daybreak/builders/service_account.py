"""The ServiceAccount of the Ray pods: without rights of its own, its token mounted nowhere by itself.

KubeRay binds it to the few rights that Ray's autoscaler needs in the namespace (see `head`).
"""

from typing import Any

from daybreak.api import names
from daybreak.api.llmservice import LLMService
from daybreak.builders.metadata import metadata


def name(svc: LLMService) -> str:
    """Name of the account: the user's own, or Daybreak's."""
    return svc.spec.runtime.service_account_name or names.service_account(svc.name)


def service_account(svc: LLMService) -> dict[str, Any]:
    """The account that Daybreak makes where the user has named none."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(svc, names.service_account(svc.name), "ray"),
        "automountServiceAccountToken": False,
    }
