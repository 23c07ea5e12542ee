"""Whether what answers at a gateway pod's address is that pod, of the gateway's own account.

A label proves nothing, and an address may be another pod's by now. A gateway shows the token that the kubelet
has made for its pod, for the operator as audience: of no use to whoever sees it, as it stands for that pod.
"""

import hashlib

import structlog

from daybreak.api.common import names
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.token_reviews import holder

TOKEN_LIMIT = 8192
"""Longest token, in characters."""

log = structlog.get_logger("daybreak.listener")


class GatewayIdentity:
    """Asks the API server who gateways are, once for each of their tokens."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._proven: dict[tuple[str, str], str] = {}
        """By namespace and pod: the digest of the token that it has shown last, and that was its own."""

    async def prove(self, namespace: str, pod_uid: str, token: str) -> bool:
        """Whether a token is that of a namespace's gateway pod."""
        digest = hashlib.sha256(token.encode()).hexdigest()
        if self._proven.get((namespace, pod_uid)) == digest:
            return True
        if not token or not pod_uid or len(token) > TOKEN_LIMIT:
            return False
        try:
            found = await holder(self._api, token, names.OPERATOR_AUDIENCE)
        except ApiError as error:
            log.warning("a gateway's token could not be checked", namespace=namespace, error=str(error))
            return False
        user = f"system:serviceaccount:{namespace}:{names.GATEWAY}"
        if found is None or found.user != user or found.pod_uid != pod_uid:
            return False
        self._proven[namespace, pod_uid] = digest
        return True

    def forget(self, namespace: str, pod_uid: str) -> None:
        """The pod has gone."""
        self._proven.pop((namespace, pod_uid), None)
