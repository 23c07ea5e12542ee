"""The ServiceAccount's token for one container of a pod, whose others get none."""

from typing import Any

from daybreak.api.common import volume_names

_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


def volume() -> dict[str, Any]:
    """What Kubernetes would mount into every container of the pod, as a volume for one of them."""
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
    """Where programs look for it."""
    return {"name": volume_names.API_TOKEN_VOLUME, "mountPath": _FOLDER, "readOnly": True}
