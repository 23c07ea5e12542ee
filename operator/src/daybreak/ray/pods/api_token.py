"""Token of the ServiceAccount for a single container of a pod."""

from typing import Any

from daybreak.api.common import volume_names

_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


def volume() -> dict[str, Any]:
    """Return the volume that Kubernetes would otherwise mount into every container of the pod."""
    return {
        "name": volume_names.API_TOKEN_VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                    }
                },
            ]
        },
    }


def mount() -> dict[str, Any]:
    """Return the mount at the token's standard path."""
    return {"name": volume_names.API_TOKEN_VOLUME, "mountPath": _FOLDER, "readOnly": True}
