"""Service account with the environment of a pod, because a program with a kubeconfig loads more code."""

import base64
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from daybreak.kube.credentials import FOLDER
from tests.api.admin import Admin, Refused

NAME = "bench-gateway"
_SECONDS = 24 * 3600


def service_account(kubeconfig: Path, namespace: str, folder: Path) -> dict[str, str]:
    """Create a service account with all rights in a namespace, and return the environment of its pods."""
    admin = Admin(kubeconfig, namespace)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    for manifest in (
        {"apiVersion": "v1", "kind": "ServiceAccount"},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "roleRef": role,
            "subjects": [subject],
        },
    ):
        try:
            admin.create({**manifest, "metadata": {"name": NAME}})
        except Refused as error:
            if error.status != 409:  # exists already
                raise
    requested = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _SECONDS},
    }
    answer = admin.request("POST", admin.path("ServiceAccount", NAME) + "/token", requested)
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    place = folder / "service-account"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    (place / "token").write_text(answer["status"]["token"])
    (place / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    server = urlsplit(cluster["server"])
    return {
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        FOLDER: str(place),
    }
