"""The admission policy on the API server."""

import time
from collections.abc import Callable

from cluster import ControlPlane
from tests.chart.hands import Denied
from tests.chart.tools import NAMESPACE, Helm, Manifest, dump

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:daybreak"
RIGHTS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
POLICY = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
DENIED = "denied request: "


def enforced(plane: ControlPlane, rendered: list[Manifest]) -> list[Manifest]:
    """Apply the operator's rights and the policy to the API server. Returns the applied objects."""
    manifests = [m for m in rendered if m["kind"] in RIGHTS | POLICY]
    plane.apply(dump(manifests))
    return manifests


def until(denied: bool, attempt: Callable[[], object]) -> None:
    """Wait until the API server has received the policy, or its change: it reads them from a watch."""
    deadline = time.monotonic() + 30
    while True:
        try:
            attempt()
            found = False
        except Denied as error:
            found = DENIED in str(error)
        if found == denied:
            return
        assert time.monotonic() < deadline, "the API server does not act by the policy"
        time.sleep(0.2)


def policies(helm: Helm, *options: str) -> list[Manifest]:
    """Return the rendered policies and bindings."""
    return [m for m in helm.template(*options) if m["kind"] in POLICY]
