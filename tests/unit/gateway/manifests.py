"""Manifests of services and their pods, as the gateway reads them."""

from typing import Any

from daybreak.api.common import names
from daybreak.gateway.desired.gates import DesiredGate, DesiredService, Ports, desired_state


def manifest(gate: Any, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "tiny", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"models": [{"name": "small"}, {"name": "org/big"}], **spec},
        "status": {"gate": gate},
    }


def entry(name: str, state: Any = "Open", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "epoch": 7, "holdSeconds": 90} | more


def gate(*models: Any, **more: Any) -> dict[str, Any]:
    found = models or (entry("small"), entry("org/big", epoch=9))
    return {"port": 20003, "backends": [{"cluster": "tiny-abc"}], "models": list(found)} | more


def head(
    host: str = "10.0.0.1", cluster: str = "tiny-abc", kind: str = "head", **more: Any
) -> dict[str, Any]:
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": kind}
    metadata = {"name": "h", "labels": labels} | more.pop("metadata", {})
    return {"metadata": metadata, "status": {"podIP": host, "phase": "Running"} | more}


def worker(model: str, host: str = "10.0.0.9", cluster: str = "tiny-abc", **more: Any) -> dict[str, Any]:
    labels = {
        "ray.io/cluster": cluster,
        "ray.io/node-type": "worker",
        "daybreak.dev/model": names.worker_group(model),
    }
    metadata = {"name": "w", "labels": labels} | more.pop("metadata", {})
    return {"metadata": metadata, "status": {"podIP": host, "phase": "Running"} | more}


def read(found: Any, *pods: Any) -> DesiredService:
    claim = desired_state(found, pods, Ports())
    assert claim is not None
    return claim


def small(found: Any, *pods: Any) -> DesiredGate:
    """Return the gate of the first model."""
    return read(found, *pods).gates[0]


PATHS = [("Any", "any"), ("V2", "v2"), ("Later", "any")]
"""Protocols and the paths that each allows. `Later` is a protocol of a newer operator."""


def engine(host: str | None = "10.0.0.5", owner: str = "server.tiny", **more: Any) -> dict[str, Any]:
    """Return a pod of a ModelServer."""
    labels = names.labels(owner, names.SERVER_COMPONENT) | {names.MODEL_LABEL: names.worker_group("small")}
    metadata = {"name": "e", "labels": labels} | more.pop("metadata", {})
    return {"metadata": metadata, "status": {"podIP": host, "phase": "Running"} | more}


def model_server(state: str = "Open", **spec: Any) -> dict[str, Any]:
    """Return a ModelServer with a gate."""
    backend = {"cluster": "server.tiny", "port": 9000, "healthPath": "/up", "weight": 100}
    found = manifest(gate(entry("small", state), backends=[backend]), **spec)
    found["spec"] = {"model": {"name": "small"}, "maxOngoingRequests": 32, **spec}
    return {"kind": "ModelServer", **found}


def application(**spec: Any) -> dict[str, Any]:
    """Return a ServeApplication with a gate."""
    found = manifest(gate(entry("tiny"), backends=[{"cluster": "tiny-1", "weight": 100}]), **spec)
    found["spec"] = {"importPath": "a:b", **spec}
    found["status"]["gate"]["protocol"] = spec.get("protocol", "Any")
    return {"kind": "ServeApplication", **found}


def ray_pod(role: str, address: str) -> dict[str, Any]:
    """Return a pod of the ServeApplication's Ray cluster."""
    labels = {names.RAY_CLUSTER_LABEL: "tiny-1", names.RAY_NODE_TYPE_LABEL: role, names.MODEL_LABEL: "cpu"}
    return {"metadata": {"name": role, "labels": labels}, "status": {"podIP": address, "phase": "Running"}}
