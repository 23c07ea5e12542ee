"""Names and labels of all objects that Daybreak creates.

Names are built only here and, for volumes and their directories, in `volume_names.py`.
"""

import hashlib
import re
from collections.abc import Mapping

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
PART_OF_LABEL = "app.kubernetes.io/part-of"
MANAGED_BY = "daybreak"
OWNER_KIND_LABEL = "daybreak.dev/owner-kind"
"""Label with the kind of an object's owner, such as `LLMService`. Pods have the label too; objects of a
gateway have `Gateway`."""
OWNER_NAME_LABEL = "daybreak.dev/owner-name"
"""Label with the name of an object's owner. Pods have the label too; objects of a gateway do not."""
MODEL_LABEL = "daybreak.dev/model"
"""Label of worker pods with the name of their worker group; a model's own name may contain characters that a
label cannot."""
TOLERATIONS_ANNOTATION = "daybreak.dev/tolerations-hash"
"""Annotation of Ray pods that tolerate taints: digest of the tolerations."""
FIT_CHECK_ANNOTATION = "daybreak.dev/fit-check"
"""Annotation of an LLMService, ModelServer or ServeApplication: `off` disables the fit check, for clusters
that add nodes for pending pods."""
FIT_CHECK_OFF = "off"
STATE_ANNOTATION = "daybreak.dev/state"
"""Annotation of an LLMService, ModelServer or ServeApplication: `Asleep` or `Awake`, like `spec.state`, over
which it takes precedence."""
ROLLOUT_PAUSED_ANNOTATION = "daybreak.dev/rollout-paused"
"""Annotation of an LLMService, ModelServer or ServeApplication: `true` pauses rollouts, like
`spec.rollout.paused`."""
ROLLOUT_REVISION_ANNOTATION = "daybreak.dev/rollout-revision"
"""Annotation of an LLMService, ModelServer or ServeApplication: number of an earlier revision to run. It
takes precedence over `spec.rollout.revision`."""
CONFIGURATION_ANNOTATION = "daybreak.dev/configuration-hash"
"""Annotation of a RayService: digest of the settings that restart replicas when they change."""
CONFIGURATION_LABEL = "daybreak.dev/configuration-hash"
"""Label of the pods of a ModelServer: digest of their configuration."""
WISHES_ANNOTATION = "daybreak.dev/pod-spec-hash"
"""Annotation of a ModelServer's Deployment or LeaderWorkerSet, or a ServeApplication's RayService: digest of
the pod settings in the spec."""
BUILT_WITH_ANNOTATION = "daybreak.dev/built-with"
"""Annotation of a RayService: operator defaults and digests of the spec from which it was built, as JSON."""
CODE_ANNOTATION = "daybreak.dev/code-hash"
"""Annotation of a ServeApplication's RayService and its pods: digest of the ConfigMap with the code."""
CACHE_ANNOTATION = "daybreak.dev/cache"
"""Annotation of a Job that fills a cache: PVC and directory, as `claim/directory`."""
GATEWAY = "daybreak-gateway"
"""Name of a namespace's gateway: of its Deployment and of all related objects."""
GATEWAY_COMPONENT = "gateway"
"""Component label of a gateway's objects and pods, and name of the HAProxy container in the pods."""
GATEWAY_AGENT = "agent"
"""Name of the container with the gateway's agent."""
GATEWAY_PORTS = (20000, 21023)
"""First and last port of the gateway for services; each service has one port."""
GATEWAY_ROUTE_PORTS = (19000, 19255)
"""First and last port of the gateway for LLMRoutes with a dedicated address."""
GATEWAY_ROUTER_PORT = 19999
"""Port of the gateway for all models of the namespace."""
ROUTER = "llm"
"""Name of the Service for the router port. No LLMService may have this name."""
GATEWAY_HTTP_PORT = 9180
"""Port on which a gateway's agent serves its state and metrics."""
GATEWAY_HEALTH_PORT = 9181
"""Port on which a gateway's supervisor answers the kubelet's probes."""
GATEWAY_STREAM_SECONDS = 3600
"""Maximum time, in seconds, in which a model may send no data during a response. A response may take at least
as long."""
GATEWAY_PROOF_HEADER = "X-Daybreak-Token"
"""Header of a gateway's state stream with the token of its ServiceAccount."""
OPERATOR_AUDIENCE = "daybreak-operator"
"""Audience of the gateway's token."""
GATEWAY_PROOF_FOLDER = "/run/daybreak-token"
"""Directory with the gateway's token, in the file `token`."""
GATEWAY_PROOF_VOLUME = "token"
"""Name of the volume with the gateway's token."""
GATEWAY_FOLDER = "/run/daybreak-gateway"
"""In-memory directory with the sockets and the configuration of a gateway's HAProxy and agent."""
GATEWAY_KEYS_FOLDER = "/run/daybreak-keys"
"""Directory below which each Secret with API keys is mounted."""
SHARED_KEYS = "daybreak-api-keys"
"""Name of the Secret that every gateway mounts, even if it does not exist. New keys in it need no new
pods."""
GATEWAY_RUN_VOLUME = "run"
"""Name of the volume at `GATEWAY_FOLDER`."""
GATEWAY_KEYS_VOLUME_PREFIX = "keys-"
"""Prefix of the names of volumes with keys."""

BENCHMARK_ANNOTATION = "daybreak.dev/benchmark-hash"
"""Annotation of a Job: digest of the part of an LLMBenchmark's spec that may not change after the start."""
MEASURED_ANNOTATION = "daybreak.dev/engine-hash"
"""Annotation of an LLMBenchmark's Job: digest of the engine that the Job measures."""
BATCH_ANNOTATION = "daybreak.dev/batch-hash"
"""Annotation of a RayJob: digest of the part of an LLMBatch's spec that may not change after the start."""
RAY_CLUSTER_ANNOTATION = "daybreak.dev/ray-cluster-hash"
"""Annotation of a RayJob or a ServeApplication's RayService: digest of the Ray cluster's configuration."""
OWNER_PREFIXES = {
    "LLMBatch": "batch.",
    "LLMBenchmark": "benchmark.",
    "ModelServer": "server.",
    "ServeApplication": "application.",
    "LLMRoute": "route.",
}
"""Prefix of an owner's name in labels, in names of its objects and in the gateway's data, by kind.

An LLMService has no prefix, and its name has no dot. Objects of two kinds may therefore have the same
name."""
_SERVICE_KIND = "LLMService"
GATEWAY_KIND = "Gateway"
"""Kind of a namespace's gateway as the owner of its objects. No object of that kind exists."""
SERVE_APPLICATION = "app"
"""Name of the Ray Serve application for a ServeApplication's own import path."""
SERVER_COMPONENT = "server"
"""Component label of a ModelServer's objects and pods."""
SERVER_WORKER_COMPONENT = "server-worker"
"""Component label of the pods of a multi-node replica that receive no requests."""

RAY_CLUSTER_LABEL = "ray.io/cluster"
RAY_NODE_TYPE_LABEL = "ray.io/node-type"
RAY_GROUP_LABEL = "ray.io/group"
RAY_SERVE_LABEL = "ray.io/serve"
POD_GROUP_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
"""Label of LeaderWorkerSet: the replica that a pod belongs to."""

FIELD_MANAGER = "daybreak-operator"
APPLICATION = "llm"
"""Name of a service's only Ray Serve application."""
GROUP_NAME_LIMIT = 40
"""Maximum length of a worker group's name, in characters. A pod's name contains it after the cluster's name,
and must stay readable."""
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
"""Label of Kubernetes for the pods of a Job."""
ACCELERATOR_CLAIM = "daybreak-accelerators"
"""Name of a worker pod's ResourceClaim for accelerators (DRA)."""


def labels(service: str, component: str) -> dict[str, str]:
    """Return the labels of an object of the owner `service`, as in `of_owner`."""
    return {
        NAME_LABEL: _kind_of(service),
        INSTANCE_LABEL: service,
        COMPONENT_LABEL: component,
        MANAGED_BY_LABEL: MANAGED_BY,
        PART_OF_LABEL: MANAGED_BY,
        **owner_labels(service),
    }


def owner_labels(owner: str) -> dict[str, str]:
    """Return the labels that identify an owner on its objects; `owner` is as in `of_owner`."""
    kind, name = kind_and_name(owner)
    return {OWNER_KIND_LABEL: kind, OWNER_NAME_LABEL: name} if name else {OWNER_KIND_LABEL: kind}


def owner_selector(owner: str) -> str:
    """Return the label selector of an owner's objects."""
    return ",".join(f"{label}={value}" for label, value in owner_labels(owner).items())


def labelled_owner(labels: Mapping[str, str] | None) -> str | None:
    """Return the owner that an object's labels identify, as in `of_owner`, or None without them."""
    if not labels or OWNER_KIND_LABEL not in labels:
        return None
    kind, name = labels[OWNER_KIND_LABEL], labels.get(OWNER_NAME_LABEL, "")
    return "" if kind == GATEWAY_KIND else of_owner(kind, name)


def _kind_of(owner: str) -> str:
    """Return the kind, in lower case, that an owner label encodes."""
    return kind_and_name(owner)[0].lower()


def kind_and_name(owner: str) -> tuple[str, str]:
    """Return the kind and name that an owner label encodes; an empty label is that of a gateway."""
    if not owner:
        return GATEWAY_KIND, ""
    for kind, prefix in OWNER_PREFIXES.items():
        if owner.startswith(prefix):
            return kind, owner.removeprefix(prefix)
    return _SERVICE_KIND, owner


def of_owner(kind: str, name: str) -> str:
    """Return the owner label of a Daybreak object, which is also used in names of its objects."""
    return f"{OWNER_PREFIXES.get(kind, '')}{name}"


def benchmark_job(benchmark: str) -> str:
    """Return the name of an LLMBenchmark's Job."""
    return f"{benchmark}-benchmark"


def benchmark_report(benchmark: str) -> str:
    """Return the name of the ConfigMap with an LLMBenchmark's report."""
    return f"{benchmark}-report"


def benchmark_manager(benchmark: str, uid: str) -> str:
    """Return the field manager for the fields that an LLMBenchmark writes into an LLMService.

    Each LLMBenchmark has its own manager: with a shared one, an apply would revert the fields of another
    benchmark.
    """
    return f"daybreak-benchmark-{benchmark}-{uid[:8]}"


def server_deployment(server: str) -> str:
    """Return the name of a ModelServer's Deployment or LeaderWorkerSet."""
    return f"{server}-server"


def ray_job(batch: str) -> str:
    """Return the name of an LLMBatch's RayJob, which is that of the LLMBatch."""
    return batch


def prepare_resource(model: str) -> str:
    """Return the Ray resource of a model's worker group for processes alongside the engine."""
    return f"prepare-{worker_group(model)}"


def gateway_labels() -> dict[str, str]:
    """Return the labels of the objects and pods of a namespace's gateway."""
    return {
        NAME_LABEL: GATEWAY,
        COMPONENT_LABEL: GATEWAY_COMPONENT,
        MANAGED_BY_LABEL: MANAGED_BY,
        PART_OF_LABEL: MANAGED_BY,
        **owner_labels(""),
    }


def operator_selector() -> dict[str, str]:
    """Return the labels that NetworkPolicies use to select the operator in its namespace."""
    return {COMPONENT_LABEL: "operator", PART_OF_LABEL: "daybreak"}


def gateway_selector() -> dict[str, str]:
    """Return the labels that select the gateway pods of a namespace."""
    return {NAME_LABEL: GATEWAY, COMPONENT_LABEL: GATEWAY_COMPONENT}


def revision(service: str, digest: str) -> str:
    """Return the name of a service's ControllerRevision; `digest` has at most 10 characters."""
    return f"{service}-{digest}"


def ray_service(service: str) -> str:
    """Return the name of an LLMService's RayService, which is that of the LLMService."""
    return service


def front_service(service: str) -> str:
    """Return the name of the Service for clients, which is that of the LLMService."""
    return service


def service_account(service: str) -> str:
    """Return the name of the Ray pods' ServiceAccount.

    The name has at most 50 characters, because KubeRay cuts the head's ServiceAccount name to its last 50.
    """
    return f"{service}-sa"


def network_policy(service: str) -> str:
    """Return the name of the NetworkPolicy that closes the Ray ports."""
    return f"{service}-ray"


def disruption_budget(service: str) -> str:
    """Return the name of the Ray pods' PodDisruptionBudget."""
    return f"{service}-ray"


INGRESS_DEPLOYMENT = "OpenAiIngress"
"""Ray Serve LLM's name for the deployment with the OpenAI API."""
HEAD_RESOURCE = "daybreak-head"
"""Ray resource of the head only: actors that request it run on the head."""


def model_resource(model: str) -> str:
    """Return the Ray resource that only the pods of a model's worker group have."""
    return f"model-{worker_group(model)}"


def serve_deployment(model: str) -> str:
    """Return Ray Serve LLM's name for a model's deployment (it replaces `/` and `.`)."""
    return f"LLMServer:{model.replace('/', '--').replace('.', '_')}"


def worker_group(model: str) -> str:
    """Return the name of a model's worker group, which is a DNS label.

    If the model's name is such a label already, and not too long, it is the name of the group. Any other name
    is converted to lower-case letters, digits and `-`, with a short digest of the original. Two different
    models therefore never share a group.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
    if plain == model and len(plain) <= GROUP_NAME_LIMIT:
        return plain
    digest = hashlib.sha256(model.encode()).hexdigest()[:6]
    return f"{plain[: GROUP_NAME_LIMIT - 7].rstrip('-')}-{digest}"


def address(service: str, namespace: str) -> str:
    """Return the base URL, inside the cluster, of a service with any protocol."""
    return f"http://{front_service(service)}.{namespace}.svc"


def route_application(prefix: str) -> str:
    """Return the name of the Ray Serve application at a route of a ServeApplication."""
    return f"{SERVE_APPLICATION}-{worker_group(prefix.strip('/'))}"


def group_resource(group: str) -> str:
    """Return the Ray resource that only the pods of a worker group have."""
    return f"group-{group}"


def url(service: str, namespace: str) -> str:
    """Return the base URL for an OpenAI client inside the cluster."""
    return f"http://{front_service(service)}.{namespace}.svc/v1"
