"""Identity of a token's owner, verified by a TokenReview of the API server."""

from dataclasses import dataclass

from daybreak.api.common.unstructured import at, mapping, text
from daybreak.api.schema.resource import Resource
from daybreak.kube.client import Api

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
_POD_UID = "authentication.kubernetes.io/pod-uid"


@dataclass(frozen=True)
class Holder:
    """Owner of a token."""

    user: str
    """User name; `system:serviceaccount:NAMESPACE:NAME` for a ServiceAccount."""
    pod_uid: str
    """UID of the pod for which the token was created; empty if there is none."""


async def holder(api: Api, token: str, audience: str) -> Holder | None:
    """Return the owner of a token, or None if it is invalid or for another audience.

    Raise ApiError on failure.
    """
    review = {
        "apiVersion": TOKEN_REVIEWS.api_version,
        "kind": TOKEN_REVIEWS.kind,
        "spec": {"token": token, "audiences": [audience]},
    }
    found = await api.request("create", TOKEN_REVIEWS, TOKEN_REVIEWS.path(), body=review)
    status = mapping(found.get("status"))
    # An API server without support for audiences names none: its answer then concerns its own audience.
    if status.get("authenticated") is not True or audience not in (status.get("audiences") or ()):
        return None
    pods = at(status, "user", "extra").get(_POD_UID)
    pod = pods[0] if isinstance(pods, list) and pods else ""
    return Holder(text(at(status, "user").get("username")), text(pod))
