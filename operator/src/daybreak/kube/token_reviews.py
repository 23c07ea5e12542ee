"""Who a token belongs to, by the API server's word: TokenReview."""

from dataclasses import dataclass

from daybreak.api.common.unstructured import at, mapping, text
from daybreak.api.schema.resource import Resource
from daybreak.kube.client import Api

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
_POD_UID = "authentication.kubernetes.io/pod-uid"


@dataclass(frozen=True)
class Holder:
    """Who has a token."""

    user: str
    """A ServiceAccount is `system:serviceaccount:NAMESPACE:NAME`."""
    pod_uid: str
    """The pod that it was made for; empty: for none."""


async def holder(api: Api, token: str, audience: str) -> Holder | None:
    """Who has a token for that audience; None: nobody, or it is for somebody else. Raises ApiError."""
    review = {
        "apiVersion": TOKEN_REVIEWS.api_version,
        "kind": TOKEN_REVIEWS.kind,
        "spec": {"token": token, "audiences": [audience]},
    }
    found = await api.request("create", TOKEN_REVIEWS, TOKEN_REVIEWS.path(), body=review)
    status = mapping(found.get("status"))
    # An API server that does not know audiences names none: its word is about itself then.
    if status.get("authenticated") is not True or audience not in (status.get("audiences") or ()):
        return None
    pods = at(status, "user", "extra").get(_POD_UID)
    pod = pods[0] if isinstance(pods, list) and pods else ""
    return Holder(text(at(status, "user").get("username")), text(pod))
