"""TokenReviews of gateways' tokens, and the parts of the API server's answer that count."""

from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.gateways.identity import TOKEN_LIMIT, GatewayIdentity
from daybreak.kube.errors import ApiError

POD_UID = "authentication.kubernetes.io/pod-uid"
OWN = {
    "authenticated": True,
    "audiences": [names.OPERATOR_AUDIENCE],
    "user": {"username": "system:serviceaccount:ns:daybreak-gateway", "extra": {POD_UID: ["uid"]}},
}


class FakeApi:
    """Fake API server that answers TokenReviews with a preset status."""

    def __init__(self, status: dict[str, Any]) -> None:
        self.status = status
        self.requested: list[Any] = []
        self.away = False

    async def request(self, verb: str, resource: Any, path: str, *, body: Any) -> dict[str, Any]:
        """Answer one review."""
        assert (verb, path) == ("create", "/apis/authentication.k8s.io/v1/tokenreviews")
        if self.away:
            raise ApiError(0, "Unreachable", "away")
        self.requested.append(body["spec"])
        return {"status": self.status}


def identity(api: FakeApi) -> GatewayIdentity:
    return GatewayIdentity(api)  # type: ignore[arg-type]


async def test_each_token_is_reviewed_once() -> None:
    api = FakeApi(OWN)
    asking = identity(api)
    assert await asking.prove("ns", "uid", "one")
    api.away = True
    assert await asking.prove("ns", "uid", "one"), "without the API server too"
    assert not await asking.prove("ns", "uid", "renewed")
    api.away = False
    assert await asking.prove("ns", "uid", "renewed")
    assert [spec["token"] for spec in api.requested] == ["one", "renewed"]
    assert api.requested[0]["audiences"] == [names.OPERATOR_AUDIENCE]
    asking.forget("ns", "uid")
    api.away = True
    assert not await asking.prove("ns", "uid", "renewed")


@pytest.mark.parametrize(
    "wrong",
    [
        {"authenticated": False},
        {"authenticated": "true"},
        {"audiences": []},
        {"audiences": None},
        {"audiences": ["https://kubernetes.default.svc"]},
        {"user": {"username": "system:serviceaccount:ns:other", "extra": {POD_UID: ["uid"]}}},
        {"user": {"username": "system:serviceaccount:other:daybreak-gateway", "extra": {POD_UID: ["uid"]}}},
        {"user": {"username": "system:serviceaccount:ns:daybreak-gateway", "extra": {POD_UID: ["other"]}}},
        {"user": {"username": "system:serviceaccount:ns:daybreak-gateway"}},
        {"user": None},
    ],
)
async def test_unauthenticated_or_foreign_token_is_rejected(wrong: dict[str, Any]) -> None:
    assert not await identity(FakeApi(OWN | wrong)).prove("ns", "uid", "one")


@pytest.mark.parametrize("token", ["", "x" * (TOKEN_LIMIT + 1)])
async def test_empty_or_oversized_token_is_rejected_without_review(token: str) -> None:
    api = FakeApi(OWN)
    assert not await identity(api).prove("ns", "uid", token)
    assert not await identity(api).prove("ns", "", "one")
    assert api.requested == []
