"""The autoscaler's container: it can satisfy a namespace's policies without a custom container."""

from pathlib import Path
from typing import Any

import pytest

from daybreak.api.llmservice.validation import problems
from daybreak.api.schema.scalars import parse_quantity
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from daybreak.scheduling import fit
from daybreak.scheduling.pod_additions import of
from tests.unit.ray.services import PLATFORM, service

ROOT = Path(__file__).parents[3]


def head(*containers: dict[str, Any], **spec: Any) -> Any:
    """Return a service with these containers in its head's template."""
    return service(runtime={"head": {"podTemplate": {"spec": {"containers": list(containers), **spec}}}})


def options(svc: Any) -> dict[str, Any]:
    """Return the autoscaler's options of the RayService."""
    assert not problems(svc)
    found: dict[str, Any] = ray_service(svc, PLATFORM)["spec"]["rayClusterConfig"]["autoscalerOptions"]
    return found


def autoscaler(**resources: Any) -> dict[str, Any]:
    """Return the autoscaler's container with these resources."""
    return {"name": "autoscaler", "resources": resources}


def test_autoscaler_has_no_cpu_limit_by_default() -> None:
    assert options(service())["resources"]["limits"] == {"memory": "512Mi"}


@pytest.mark.parametrize("name", ["ray", "ray-head"])
def test_autoscaler_has_cpu_limit_if_head_has_cpu_limit(name: str) -> None:
    """A quota on `limits.cpu` requires a limit of every container."""
    found = options(head({"name": name, "resources": {"limits": {"cpu": "2"}}}))
    assert found["resources"]["limits"] == {"cpu": "500m", "memory": "512Mi"}
    assert found["resources"]["requests"] == {"cpu": "100m", "memory": "512Mi"}


def test_autoscaler_resources_of_template_override_defaults() -> None:
    found = options(
        head(
            {"name": "ray", "resources": {"limits": {"cpu": "2"}}},
            autoscaler(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "200m"}),
        )
    )
    assert found["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert found["resources"]["requests"] == {"cpu": "200m", "memory": "512Mi"}


@pytest.mark.parametrize(
    ("given", "requests", "limits"),
    [
        ({"limits": {"cpu": "50m"}}, {"cpu": "50m", "memory": "512Mi"}, {"cpu": "50m", "memory": "512Mi"}),
        ({"limits": {"memory": "256Mi"}}, {"cpu": "100m", "memory": "256Mi"}, {"memory": "256Mi"}),
        ({"requests": {"memory": "1Gi"}}, {"cpu": "100m", "memory": "1Gi"}, {"memory": "1Gi"}),
    ],
)
def test_autoscaler_resource_requests_do_not_exceed_limits(given: Any, requests: Any, limits: Any) -> None:
    found = options(head(autoscaler(**given)))
    assert found["resources"] == {"requests": requests, "limits": limits}


def test_autoscaler_receives_env_and_volume_mounts_of_template() -> None:
    mount = {"name": "ca", "mountPath": "/etc/corporate"}
    variable = {"name": "SSL_CERT_FILE", "value": "/etc/corporate/ca.crt"}
    svc = head(
        {"name": "autoscaler", "env": [variable], "volumeMounts": [mount]},
        volumes=[{"name": "ca", "configMap": {"name": "corporate-ca"}}],
    )
    found = options(svc)
    assert found["env"] == [variable]
    assert mount in found["volumeMounts"]
    template = ray_service(svc, PLATFORM)["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
    assert [each["name"] for each in template["spec"]["containers"]] == ["ray-head"]


@pytest.mark.parametrize("field", ["image", "command", "securityContext", "ports"])
def test_other_fields_of_autoscaler_container_are_rejected(field: str) -> None:
    values: dict[str, Any] = {"image": "a", "command": ["a"], "securityContext": {}, "ports": []}
    [problem] = problems(head({"name": "autoscaler", field: values[field]}))
    assert problem.startswith(f"spec.runtime.head.podTemplate.spec.containers[0].{field}: KubeRay")
    assert "resources" in problem


def test_init_container_named_autoscaler_is_rejected() -> None:
    [problem] = problems(head(initContainers=[{"name": "autoscaler", "image": "a"}]))
    assert "the pod has a container autoscaler already" in problem


def test_resource_request_above_its_limit_is_rejected() -> None:
    [problem] = problems(head(autoscaler(requests={"cpu": "2"}, limits={"cpu": "1"})))
    assert "resources.requests.cpu: 2 is more than the limit of 1" in problem


@pytest.mark.parametrize(
    ("given", "cpu"), [({}, "0.1"), ({"requests": {"cpu": "2"}}, "2"), ({"limits": {"cpu": "50m"}}, "0.05")]
)
def test_fit_counts_the_autoscaler_once(given: Any, cpu: str) -> None:
    svc = head(autoscaler(**given))
    template = svc.spec.runtime.head.pod_template
    assert not of(template, "ray-head").beside
    [question, *_] = fit.questions(svc.workload, fit.of_models)
    own = ray_service(svc, PLATFORM)["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
    requested = own["containers"][0]["resources"]["requests"]["cpu"]
    assert question.demand.requests["cpu"] == parse_quantity(requested) + parse_quantity(cpu)


def test_head_can_be_marked_as_safe_to_evict() -> None:
    """The cluster autoscaler then removes the node of a sleeping service's head; docs/sleep.md shows it."""
    annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    svc = service(runtime={"head": {"podTemplate": {"metadata": {"annotations": annotations}}}})
    assert not problems(svc)
    template = ray_service(svc, PLATFORM)["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
    assert annotations.items() <= template["metadata"]["annotations"].items()
    assert next(iter(annotations)) in (ROOT / "docs" / "sleep.md").read_text()
