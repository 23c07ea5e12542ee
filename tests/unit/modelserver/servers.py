"""ModelServers for the tests, and observations of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.api.common import names
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.profiles import profiles
from daybreak.gates.traffic import Traffic
from daybreak.kinds.modelserver.objects.deployment import configuration, deployment
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.observe.observer import as_built, read
from daybreak.rollouts.revisions import Revision
from daybreak.workloads.observed import GatewayView
from tests import installed

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
PLATFORM = installed.platform()
SPEC: dict[str, Any] = {
    "engine": "vllm",
    "model": {"name": "tiny", "source": "file:///models/tiny"},
    "accelerator": {"kind": "cpu"},
    "sleep": {"afterIdle": "15m"},
}
CUSTOM: dict[str, Any] = {"engine": "custom", "image": "engine:1"}
SGLANG: dict[str, Any] = {"engine": "sglang", "image": "sglang:1"}
LLAMA: dict[str, Any] = {"engine": "llama.cpp", "image": "llama:1"}
ASKED = Traffic(known=True, in_flight=1, acknowledged=10**15, routed=True)
"""Traffic with a request in flight."""
QUIET = Traffic(known=True, idle=timedelta(hours=1), acknowledged=10**15, routed=True)
"""Traffic without requests for an hour."""


def manifest(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a manifest. Fields that are None are left out."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": "chat", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {name: value for name, value in (SPEC | spec).items() if value is not None},
        **({"status": status} if status is not None else {}),
    }


def server(**spec: Any) -> ModelServer:
    """Return a ModelServer."""
    return ModelServer.from_manifest(manifest(**spec))


def live(one: ModelServer, replicas: int = 1) -> dict[str, Any]:
    """Return the server's Deployment, as Kubernetes has observed it."""
    found = deployment(one, PLATFORM, replicas)
    found["metadata"]["generation"] = 1
    return found | {"status": {"observedGeneration": 1}}


def pod(one: ModelServer, *, ready: bool = True, runs: str | None = None, **status: Any) -> dict[str, Any]:
    """Return a pod of the Deployment on a node; `runs` is its configuration digest, current by default."""
    label = configuration(live(one)) if runs is None else runs
    labels = names.labels(one.owner, names.SERVER_COMPONENT) | {names.CONFIGURATION_LABEL: label}
    since = (NOW - timedelta(seconds=5)).isoformat()
    conditions = [
        {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": since}
        for kind, holds in (("Ready", ready), ("PodScheduled", True))
    ]
    return {
        "metadata": {"name": f"chat-{label}", "labels": labels, "creationTimestamp": since},
        "spec": {"nodeName": "one", "containers": []},
        "status": {"phase": "Running", "podIP": "10.0.0.7", "conditions": conditions, **status},
    }


def observe(
    status: dict[str, Any] | None = None,
    *pods: dict[str, Any],
    traffic: Traffic | None = QUIET,
    now: datetime = NOW,
    spec: dict[str, Any] | None = None,
    known: Sequence[Revision] = (),
    annotations: Mapping[str, str] | None = None,
    **more: Any,
) -> Observed:
    """Return the observation of a server with a Deployment and the revisions in `known`.

    Without `traffic` there is no gateway.
    """
    whole = manifest(status, **(spec or {}))
    whole["metadata"]["annotations"] = dict(annotations or {})
    one, problems = read(whole)
    received = {one.spec.model.name: traffic} if one is not None and traffic is not None else {}
    gateway = None if traffic is None else GatewayView(20000, received)
    found = as_built(Observed(whole, one, problems, now, gateway), known, profiles())
    made = {"deployment": live(found.subject) if found.subject is not None else None, "pods": pods, **more}
    return replace(found, **made)
