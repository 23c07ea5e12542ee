"""API clients of a benchmark: ServiceAccounts with tokens like those of pods.

The API server caches a token for some seconds after it was checked. It checks a client certificate, which the
control plane's own kubeconfig has, with each request. For thousands of requests, that is work which no
operator in a pod causes.
"""

from pathlib import Path
from typing import Any

import yaml

from cluster import ControlPlane
from quickstart.target import NAMESPACE
from tests import installed
from tests.api.admin import Admin

OPERATOR = "daybreak"
LOADER = "loader"


def operator(plane: ControlPlane, folder: Path) -> Path:
    """Return a kubeconfig of the operator, with exactly the rights of an installation."""
    return _kubeconfig(plane, OPERATOR, installed.rights(), folder)


def loader(plane: ControlPlane, folder: Path) -> Path:
    """Return a kubeconfig of an administrator."""
    metadata = {"name": LOADER, "namespace": NAMESPACE}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": LOADER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", **metadata}],
    }
    return _kubeconfig(plane, LOADER, [account, binding], folder)


def _kubeconfig(plane: ControlPlane, account: str, objects: list[dict[str, Any]], folder: Path) -> Path:
    plane.apply(installed.listed(objects))
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = Admin(plane.kubeconfig).request("POST", path, request)["status"]["token"]
    config = yaml.safe_load(plane.kubeconfig.read_text())
    [user] = config["users"]
    user["user"] = {"token": token}
    file = folder / f"{account}.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(config))
    return file
