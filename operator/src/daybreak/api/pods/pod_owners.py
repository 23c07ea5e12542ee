"""Fields of each kind of pod that Daybreak and KubeRay own."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from daybreak.api.common import names
from daybreak.api.pods.pod_template import AUTOSCALER_CONTAINER, FILL_CONTAINER, RAY_CONTAINER

RAY_PORTS = (6379, 8000, 8080, 8100, 8265, 10001, 52365)
"""Ports of Ray, Serve and KubeRay's probes in Ray pods. A test checks the builders' ports against these."""


_POD_FIELDS = {
    "activeDeadlineSeconds": "it would end the pod while it serves",
    "automountServiceAccountToken": "no container gets the token by itself; mount one as a projected volume",
    "ephemeralContainers": "Kubernetes takes none in a template",
    "nodeName": "it goes past the scheduler; use nodeSelector or affinity",
    "overhead": "Kubernetes sets it by the runtimeClassName",
    "preemptionPolicy": "Kubernetes sets it by the priorityClassName",
    "priority": "Kubernetes sets it by the priorityClassName",
    "resources": "write resources of containers",
    "restartPolicy": "KubeRay replaces pods that have ended",
    "terminationGracePeriodSeconds": "it follows from how long requests may take to finish",
}
_CONTAINER_FIELDS = {
    "args": "KubeRay writes the command that starts Ray",
    "command": "KubeRay writes the command that starts Ray",
    "livenessProbe": "KubeRay sets it",
    "readinessProbe": "KubeRay sets it",
    "restartPolicy": "KubeRay replaces pods that have ended",
    "restartPolicyRules": "KubeRay replaces pods that have ended",
}
_KUBERAY_VARIABLES = frozenset(
    {
        "FQ_RAY_IP",
        "KUBERAY_GEN_RAY_START_CMD",
        "RAY_ADDRESS",
        "RAY_AUTH_MODE",
        "RAY_AUTH_TOKEN",
        "RAY_CLOUD_INSTANCE_ID",
        "RAY_CLUSTER_NAME",
        "RAY_ENABLE_AUTOSCALER_V2",
        "RAY_IP",
        "RAY_NODE_TYPE_NAME",
        "RAY_PORT",
    }
)
_AUTOSCALER_FIELDS = ("env", "envFrom", "name", "resources", "volumeMounts")
"""Fields of the autoscaler's container that KubeRay reads from a RayCluster. Daybreak keeps its
`securityContext`, because the chart's admission policy does not see it there."""


@dataclass(frozen=True)
class Owner:
    """Kind of pod: its parts, and the alternatives to fields that its template must not set."""

    container: str
    """Name of the container that Daybreak creates."""
    alias: str
    """Alternative name of Daybreak's container in a template."""
    fields: Mapping[str, str]
    """Owned fields of the pod, with the alternative or the reason."""
    container_fields: Mapping[str, str]
    """Owned fields of Daybreak's container, with the alternative or the reason."""
    sizes: str
    """Field with the container's CPUs and memory; empty if only the template has them."""
    cpu: str | None
    """CPU request in the field of `sizes`, or None if it is unset."""
    containers: Collection[str] = ()
    """Names of containers that Daybreak or KubeRay adds."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Owned environment variables of Daybreak's container, with the reason."""
    ports: Collection[int] = ()
    """Ports that are in use in the pod."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Reserved paths in Daybreak's container, where nothing else may be mounted, with the reason."""
    device: str = ""
    """Resource name of the accelerator, which `parallelism` counts; empty without an accelerator."""
    volumes: Collection[str] = ()
    """Volumes that exist without the template, and may be mounted."""
    added: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Fields that may be set in containers that KubeRay adds."""


def ray_owner(
    component: str,
    *,
    sizes: str,
    cpu: str | None,
    device: str = "",
    volumes: Collection[str] = (),
    mounts: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    host_network: str = "",
) -> Owner:
    """Return the owned fields of a Ray pod.

    The `component` is `head` or `worker`. `host_network` is the reason to reject that field.
    """
    account = "use spec.runtime.serviceAccountName"
    set_by_kuberay = dict.fromkeys(_KUBERAY_VARIABLES, "KubeRay sets it")
    drain = "it follows from how long requests may take to finish"
    return Owner(
        container=f"ray-{component}",
        alias=RAY_CONTAINER,
        fields={
            **_POD_FIELDS,
            "serviceAccount": account,
            "serviceAccountName": account,
            **({"hostNetwork": host_network} if host_network else {}),
        },
        container_fields={
            **_CONTAINER_FIELDS,
            "image": "use spec.runtime.image",
            "imagePullPolicy": "use spec.runtime.imagePullPolicy",
        },
        sizes=sizes,
        cpu=cpu,
        containers={"ray-head", "ray-worker", AUTOSCALER_CONTAINER, "wait-gcs-ready"},
        variables={**set_by_kuberay, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": drain, **(variables or {})},
        ports=RAY_PORTS,
        mounts=mounts or {},
        device=device,
        volumes=volumes,
        added={AUTOSCALER_CONTAINER: _AUTOSCALER_FIELDS} if component == "head" else {},
    )


def fill_owner(*, volumes: Collection[str], mounts: Mapping[str, str]) -> Owner:
    """Return the owned fields of a cache Job's pod."""
    own = "it copies the weights into the claim"
    return Owner(
        container=FILL_CONTAINER,
        alias=FILL_CONTAINER,
        fields={
            **_POD_FIELDS,
            "restartPolicy": "the Job starts it again",
            "serviceAccount": "use spec.runtime.serviceAccountName",
            "serviceAccountName": "use spec.runtime.serviceAccountName",
        },
        container_fields={
            **dict.fromkeys(_CONTAINER_FIELDS, own),
            "image": "use spec.runtime.image",
            "imagePullPolicy": "use spec.runtime.imagePullPolicy",
        },
        sizes="",
        cpu=None,
        mounts=mounts,
        volumes=volumes,
    )


def gateway_owner(cpu: str | None) -> Owner:
    """Return the owned fields of a gateway pod that has this CPU request."""
    own = "the gateway's own"
    (first, last), (first_route, last_route) = names.GATEWAY_PORTS, names.GATEWAY_ROUTE_PORTS
    return Owner(
        container=names.GATEWAY_COMPONENT,
        alias=names.GATEWAY_COMPONENT,
        fields={
            **_POD_FIELDS,
            "serviceAccount": own,
            "serviceAccountName": own,
            "automountServiceAccountToken": own,
            "hostNetwork": "its ports are for the pod's own address",
        },
        container_fields={
            **dict.fromkeys(_CONTAINER_FIELDS, own),
            "image": "use gateway.image",
            "imagePullPolicy": "use gateway.pullPolicy",
        },
        sizes="gateway.resources",
        cpu=cpu,
        containers={names.GATEWAY_AGENT},
        ports={
            names.GATEWAY_ROUTER_PORT,
            names.GATEWAY_HTTP_PORT,
            names.GATEWAY_HEALTH_PORT,
            *range(first, last + 1),
            *range(first_route, last_route + 1),
        },
        mounts={
            names.GATEWAY_FOLDER: own,
            names.GATEWAY_KEYS_FOLDER: own,
            names.GATEWAY_PROOF_FOLDER: own,
        },
        variables={"POD_NAMESPACE": own},
        volumes={names.GATEWAY_RUN_VOLUME, names.GATEWAY_PROOF_VOLUME},
    )


def engine_owner(
    container: str,
    *,
    cpu: str | None,
    port: int,
    device: str = "",
    volumes: Collection[str] = (),
    mounts: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    host_network: str = "",
) -> Owner:
    """Return the owned fields of a ModelServer's pod.

    `host_network` is the reason to reject that field.
    """
    account = "use spec.serviceAccountName"
    profile = "it follows from spec.engine"
    return Owner(
        container=container,
        alias=container,
        fields={
            **_POD_FIELDS,
            "restartPolicy": "a Deployment's pods start again",
            "serviceAccount": account,
            "serviceAccountName": account,
            **({"hostNetwork": host_network} if host_network else {}),
        },
        container_fields={
            "command": f"{profile}; a custom engine has spec.command",
            "args": f"{profile}; use spec.engineArgs, or spec.args of a custom engine",
            "readinessProbe": profile,
            "lifecycle": "gateways must stop sending requests to a pod before its engine stops",
            "image": "use spec.image",
            "imagePullPolicy": "use spec.imagePullPolicy",
        },
        sizes="spec.resources",
        cpu=cpu,
        variables=variables or {},
        ports={port},
        mounts=mounts or {},
        device=device,
        volumes=volumes,
    )
