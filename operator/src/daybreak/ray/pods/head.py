"""The head group: Ray's control store, Serve's controller, the OpenAI ingress and Ray's autoscaler.

The head runs no model: it offers Ray neither CPUs nor accelerators.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.api.pods.pod_template import AUTOSCALER_CONTAINER, RAY_CONTAINER
from daybreak.api.ray.model import AcceleratorKind
from daybreak.api.ray.runtime import Head
from daybreak.api.ray.workload import RayWorkload
from daybreak.platform import Platform
from daybreak.ray.inputs.place import Place
from daybreak.ray.pods import api_token, merge_template, pod_spec
from daybreak.ray.ports import HEAD_PORTS
from daybreak.scheduling.replica_size import object_store_bytes

SHARED_MEMORY = "512Mi"
"""Size of the head's /dev/shm, within its memory. Only large requests and responses pass through Ray's object
store."""
DRAIN_SECONDS = 30
"""Maximum time in seconds for the head's own requests to finish when the pod stops (Ray's default). The time
is always used completely, because a head never becomes idle. A longer time would delay every deletion."""
AUTOSCALER_RESOURCES = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}}
AUTOSCALER_CPU_LIMIT = "500m"
"""CPU limit of the autoscaler, equal to KubeRay's default, if the Ray container of the head has a limit. A
namespace that requires limits requires them of every container."""
GRACE_SECONDS = DRAIN_SECONDS + 10
"""Time in seconds until the kubelet kills remaining processes. The autoscaler is always among them, because
it ignores the stop signal."""

ROUTER_TIMEOUT_SECONDS = 1800
"""Maximum time in seconds that the ingress lets a request wait and run. Ray's default of 600 s is less than
the load time of a large model, for which a waking request waits. Clients have their own, shorter limits."""


def head_group(
    workload: RayWorkload,
    platform: Platform,
    *,
    image: str,
    variables: Iterable[dict[str, Any]] = (),
    places: Iterable[Place] = (),
    ports: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return the RayCluster's `headGroupSpec`.

    Args:
        workload: Workload that Ray runs.
        platform: Settings of the installation.
        image: Image of the pod.
        variables: Further variables of the Ray container.
        places: Further volumes of the Ray container.
        ports: Further ports, by name.
    """
    head = workload.runtime.head
    environment = {
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(DRAIN_SECONDS),
        "RAY_SERVE_LLM_ROUTER_HTTP_TIMEOUT": str(ROUTER_TIMEOUT_SECONDS),
    }
    if any(model.accelerator.kind is AcceleratorKind.GPU for model in workload.models):
        environment |= pod_spec.NO_DEVICES
    return {
        "rayStartParams": {
            # KubeRay's operator and its probes connect from other pods.
            "dashboard-host": "0.0.0.0",  # noqa: S104 - the NetworkPolicy decides who gets there
            "object-store-memory": str(object_store_bytes(SHARED_MEMORY)),
        },
        # GPU 0: otherwise Ray would count the devices of a GPU node on which the head runs.
        "resources": {"CPU": "0", "GPU": "0", names.HEAD_RESOURCE: "1"},
        "template": pod_spec.template(
            workload,
            platform,
            component="head",
            image=image,
            labels={},
            ports={**HEAD_PORTS, **(ports or {})},
            env=pod_spec.environment(workload, environment, variables),
            requests={"cpu": head.resources.cpu, "memory": head.resources.memory},
            places=[pod_spec.memory_place(SHARED_MEMORY), pod_spec.log_place(), *places],
            volumes=(api_token.volume(),),
            node_selector=head.node_selector,
            tolerations=head.tolerations,
            grace_seconds=GRACE_SECONDS,
            own_volumes=head.volumes,
            own_mounts=head.volume_mounts,
            overlay=None if head.pod_template is None else head.pod_template.without(AUTOSCALER_CONTAINER),
        ),
    }


def autoscaler_options(head: Head, idle_timeout_seconds: int) -> dict[str, Any]:
    """Return the options of Ray's autoscaler, a container of the head's pod.

    No other container has the ServiceAccount's token.
    """
    template = head.pod_template
    given = {} if template is None else template.container(AUTOSCALER_CONTAINER)
    ray = {} if template is None else template.container(RAY_CONTAINER, "ray-head")
    own: dict[str, Any] = AUTOSCALER_RESOURCES
    if "cpu" in ray.get("resources", {}).get("limits", {}):
        own = {**own, "limits": {"cpu": AUTOSCALER_CPU_LIMIT, **own["limits"]}}
    options = {
        "version": "v2",
        "idleTimeoutSeconds": idle_timeout_seconds,
        "resources": merge_template.sized(own, given.get("resources", {})),
        "securityContext": pod_spec.container_security(),
        "volumeMounts": [api_token.mount(), *given.get("volumeMounts", ())],
    }
    return options | {name: given[name] for name in ("env", "envFrom") if name in given}
