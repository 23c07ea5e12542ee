"""The real KubeRay operator as a process of this machine, for a control plane without a node for it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cluster import ControlPlane, paths

_NAME = "kuberay-operator"


@contextlib.contextmanager
def kuberay(plane: ControlPlane, *, namespace: str = "", proxy: str = "") -> Iterator[Path]:
    """Run KubeRay's operator as the control plane's administrator; gives its log.

    Args:
        plane: Where its objects are.
        namespace: Only this namespace; empty means all.
        proxy: An HTTP proxy for its requests to Ray's dashboards, which no address of this machine leads to.
    """
    command = [
        str(paths.BIN / _NAME),
        f"-kubeconfig={plane.kubeconfig}",
        f"-watch-namespace={namespace}",
        "-enable-leader-election=false",
        "-metrics-addr=0",
        "-health-probe-bind-address=0",
        "-reconcile-concurrency=4",
    ]
    plane.processes.start(_NAME, command, {"HTTP_PROXY": proxy} if proxy else None)
    yield plane.processes.log(_NAME)
    plane.processes.check(_NAME)
    plane.processes.stop(_NAME)
