"""Knative's activator with the objects that it reads: an awake Revision and its endpoints.

The activator requires a healthy queue-proxy behind it, so its path to the model always has both.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.gateway.process import process
from bench.gateway.steady_paths import NAMESPACE, Way
from cluster import ControlPlane
from cluster.paths import BIN
from tests.gateway.ports import free_ports

SYSTEM = "knative-serving"
PORT = 8012
"""Port that the program fixes, like 8013, on all addresses of the machine."""
_HEADERS = (f"Knative-Serving-Namespace: {NAMESPACE}", "Knative-Serving-Revision: steady")
"""Headers that name the target of a request; Knative's ingress adds them."""


@contextmanager
def activator(plane: ControlPlane, folder: Path, queue: Way) -> Iterator[Way]:
    """Run the activator as Knative deploys it, in front of that queue-proxy.

    No autoscaler receives its reports.
    """
    plane.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects(queue.port)}))
    environment = {
        "KUBECONFIG": str(plane.kubeconfig),
        "POD_NAME": "activator",
        "POD_IP": "127.0.0.1",
        "SYSTEM_NAMESPACE": SYSTEM,
        "CONFIG_LOGGING_NAME": "config-logging",
        "CONFIG_OBSERVABILITY_NAME": "config-observability",
        "GOGC": "500",
        "PROFILING_PORT": str(free_ports(1)),
        # Names with this ending are never resolved (RFC 7686), so the activator finds no autoscaler.
        "CLUSTER_DOMAIN": "cluster.onion",
    }
    with process([str(BIN / "knative-activator")], environment, folder / "activator.log") as one:
        yield Way("activator", PORT, {"activator": one, **queue.processes}, _HEADERS)


def _objects(queue_port: int) -> list[dict[str, Any]]:
    """Return the objects that Knative's controllers would create with their default settings."""
    port = {"name": "http", "port": queue_port, "protocol": "TCP"}
    labels = {
        "serving.knative.dev/revision": "steady",
        "serving.knative.dev/revisionUID": "steady",
        "networking.internal.knative.dev/serviceType": "Private",
    }
    private = {"name": "steady-private", "namespace": NAMESPACE, "labels": labels}
    revision = {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Revision",
        "metadata": {"name": "steady", "namespace": NAMESPACE},
        "spec": {
            "containerConcurrency": 0,
            "timeoutSeconds": 300,
            "containers": [{"name": "user-container", "image": "model"}],
        },
    }
    configs = (
        "config-logging",
        "config-observability",
        "config-network",
        "config-tracing",
        "config-features",
    )
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}},
        *(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SYSTEM}}
            for name in configs
        ),
        revision,
        {"apiVersion": "v1", "kind": "Service", "metadata": private, "spec": {"ports": [port]}},
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": private,
            "subsets": [{"addresses": [{"ip": _own_address()}], "ports": [port]}],
        },
    ]


def _own_address() -> str:
    """Return an IPv4 address of this machine, because Endpoints must not be on the loopback.

    Traffic to the address stays on this machine. Raises LookupError if the machine has none.
    """
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family.name == "AF_INET" and not each.address.startswith("127."):
                return str(each.address)
    raise LookupError("this machine has no address other than the loopback address")
