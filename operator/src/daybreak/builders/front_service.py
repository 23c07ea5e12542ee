"""The Service that clients use: one stable address in front of whichever Ray cluster is active.

KubeRay makes a Service of its own, which comes late and goes with the cluster.
"""

from typing import Any

from daybreak.api import names
from daybreak.api.llmservice import LLMService
from daybreak.builders import ports
from daybreak.builders.metadata import metadata

PORT = 80
_NO_CLUSTER = ""
"""No pod bears this as its cluster's name."""


def front_service(svc: LLMService, active_cluster: str | None) -> dict[str, Any]:
    """The front Service. Without an active cluster it selects no pod, and connections are refused."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(svc, names.front_service(svc.name), "front"),
        "spec": {
            "type": "ClusterIP",
            "selector": {
                names.RAY_CLUSTER_LABEL: active_cluster or _NO_CLUSTER,
                names.RAY_SERVE_LABEL: "true",
            },
            "ports": [
                {
                    "name": "http",
                    "port": PORT,
                    "targetPort": ports.SERVE,
                    "protocol": "TCP",
                    "appProtocol": "http",
                }
            ],
        },
    }
