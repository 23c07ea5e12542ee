"""Proof that the server at a gateway pod's address is that pod, under the gateway's own service account.

A label proves nothing, and an address may belong to another pod by now. A gateway shows the token that the
kubelet created for its pod, with the operator as audience. A stolen token is useless, because it identifies
only that pod.
"""

import hashlib

import structlog

from daybreak.api.common import names
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.token_reviews import holder

TOKEN_LIMIT = 8192
"""Maximum length of a token in characters."""

log = structlog.get_logger("daybreak.listener")


class GatewayIdentity:
    """Verifies gateways by their tokens, with one request to the API server per token."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._proven: dict[tuple[str, str], str] = {}
        """Digest of the last verified token, by namespace and pod UID."""

    async def prove(self, namespace: str, pod_uid: str, token: str) -> bool:
        """Return True if a token belongs to a namespace's gateway pod."""
        digest = hashlib.sha256(token.encode()).hexdigest()
        if self._proven.get((namespace, pod_uid)) == digest:
            return True
        if not token or not pod_uid or len(token) > TOKEN_LIMIT:
            return False
        try:
            found = await holder(self._api, token, names.OPERATOR_AUDIENCE)
        except ApiError as error:
            log.warning("Failed to check a gateway's token", namespace=namespace, error=str(error))
            return False
        user = f"system:serviceaccount:{namespace}:{names.GATEWAY}"
        if found is None or found.user != user or found.pod_uid != pod_uid:
            return False
        self._proven[namespace, pod_uid] = digest
        return True

    def forget(self, namespace: str, pod_uid: str) -> None:
        """Drop the record of a deleted pod."""
        self._proven.pop((namespace, pod_uid), None)
