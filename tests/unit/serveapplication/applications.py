"""ServeApplications for the tests, and observations of them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.api.common.config_map import Content
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.gates.traffic import Traffic
from daybreak.kinds.serveapplication.objects.ray_service import ray_service
from daybreak.kinds.serveapplication.observe.history import built, history_of
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.kinds.serveapplication.observe.observer import read
from daybreak.rollouts.revisions import Revision
from daybreak.workloads.observed import GatewayView
from tests import installed

CODE = "pipeline-code"
NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
PLATFORM = installed.platform()
SPEC: dict[str, Any] = {
    "importPath": "pipeline:build",
    "deployments": [{"name": "Pipeline", "cpu": "100m"}, {"name": "Length", "cpu": "500m"}],
    "sleep": {"afterIdle": "15m", "depth": "Cluster"},
}
ASKED = Traffic(known=True, in_flight=1, acknowledged=10**15, routed=True)
"""Traffic with a request in flight."""
QUIET = Traffic(known=True, idle=timedelta(hours=1), acknowledged=10**15, routed=True)
"""Traffic without requests for an hour."""
HELD = Traffic(known=True, held=1, acknowledged=10**15)
"""Traffic with a held request."""


def manifest(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a manifest. Fields that are None are left out."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "ServeApplication",
        "metadata": {"name": "pipeline", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {name: value for name, value in (SPEC | spec).items() if value is not None},
        **({"status": status} if status is not None else {}),
    }


def application(**spec: Any) -> ServeApplication:
    """Return a ServeApplication."""
    return ServeApplication.from_manifest(manifest(**spec))


def live(
    one: ServeApplication, status: str = "RUNNING", message: str = "", *, code: str = "", **more: Any
) -> dict[str, Any]:
    """Return the application's RayService, as KubeRay has started it; `code` is the digest of its code."""
    found = ray_service(one, PLATFORM, code)
    found["metadata"]["generation"] = 1
    ready = status == "RUNNING"
    report = {
        "status": status,
        "message": message,
        "serveDeploymentStatuses": {
            each.name: {"status": "HEALTHY" if ready else "UPDATING", "message": ""}
            for each in one.spec.deployments
        },
    }
    return found | {
        "status": {
            "observedGeneration": 1,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "activeServiceStatus": {
                "rayClusterName": "pipeline-abcde",
                "applicationStatuses": {"app": report},
            },
            **more,
        }
    }


def observe(
    status: dict[str, Any] | None = None,
    ray: dict[str, Any] | None = None,
    *,
    traffic: Traffic | None = QUIET,
    now: datetime = NOW,
    spec: dict[str, Any] | None = None,
    code: Content | Mapping[str, Content] | None = None,
    kept: Sequence[Revision] = (),
    annotations: dict[str, str] | None = None,
    ray_clusters: Sequence[dict[str, Any]] = (),
    **more: Any,
) -> Observed:
    """Return the observation of an application with or without a RayService.

    Args:
        status: The application's status.
        ray: The application's RayService.
        traffic: Traffic that gateways report, or None if there is no gateway.
        now: The time.
        spec: Fields of the spec that differ from the defaults.
        code: Observed content of the ConfigMap `pipeline-code`, or of several ConfigMaps by name.
        kept: The stored revisions.
        annotations: The application's annotations.
        ray_clusters: The existing Ray clusters.
        more: Other observed fields.
    """
    whole = manifest(status, **(spec or {}))
    whole["metadata"]["annotations"] = annotations or {}
    one, problems = read(whole)
    received = {one.name: traffic} if one is not None and traffic is not None else {}
    gateway = None if traffic is None else GatewayView(20000, received)
    contents = {CODE: code} if isinstance(code, Content) else code or {}
    history = history_of(one, whole, kept, contents, ray, ray_clusters) if one is not None else None
    subject = built(one, history) if one is not None else None
    return Observed(
        whole,
        subject,
        problems,
        now,
        gateway,
        ray_service=ray,
        ray_clusters=tuple(ray_clusters),
        written=one if subject is not one else None,
        history=history,
        contents=contents,
        **more,
    )
