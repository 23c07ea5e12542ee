"""LLMRoutes and LLMServices of the tests, as manifests."""

from typing import Any

from daybreak.api.llmroute.resource import KIND
from daybreak.api.llmroute.status import BackendState
from daybreak.api.schema.resource import API_VERSION
from daybreak.kinds.llmroute.observe.observed import ServiceName, models

Manifest = dict[str, Any]


def backend(service: str = "one", model: str = "a", **more: Any) -> Manifest:
    """Return a backend."""
    return {"service": service, "model": model, **more}


def route(name: str = "chat", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Manifest:
    """Return a route with one backend and only its own name, unless the spec specifies others."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "generation": 1,
            "creationTimestamp": created,
        },
        "spec": {"names": [name], "backends": [backend()], **spec},
    }


def service(name: str = "one", *models: str, state: str = "Open", port: int = 20000) -> Manifest:
    """Return an LLMService with models (`a` by default) and gates in this state; empty: without gates."""
    called = models or ("a",)
    gates = [{"name": model, "state": state, "epoch": 1, "adapters": [f"{model}-tuned"]} for model in called]
    gate = {"port": port, "models": gates}
    created = "2026-01-01T00:00:00Z"
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": created},
        "spec": {"models": [{"name": model} for model in called]},
        "status": {"gate": gate} if state else {},
    }


def server(name: str = "own", model: str = "m", *, state: str = "Open", protocol: str = "OpenAI") -> Manifest:
    """Return a ModelServer with a gate in this state; empty: without a gate."""
    gate = {"port": 20002, "protocol": protocol, "models": [{"name": model, "state": state, "epoch": 1}]}
    created = "2026-01-01T00:00:00Z"
    return {
        "kind": "ModelServer",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": created},
        "spec": {"model": {"name": model}},
        "status": {"gate": gate} if state else {},
    }


def named(manifest: Manifest) -> ServiceName:
    """Return the name of a service of the tests."""
    return ServiceName(manifest.get("kind", "LLMService"), manifest["metadata"]["name"])


def there(*services: Manifest) -> dict[ServiceName, dict[str, BackendState]]:
    """Return the models of services."""
    return {named(each): models(each) for each in services}


def canary(**more: Any) -> Manifest:
    """Return a canary of three steps of 10 minutes."""
    steps = [{"weight": weight, "duration": "10m"} for weight in (5, 25, 100)]
    analysis = {"errorRate": 0.01, "ttftP95": 1.5, "latencyP99": 1.5}
    return {"service": "next", "model": "c", "steps": steps, "analysis": analysis, **more}
