"""Names and labels of everything that Daybreak makes. Names are put together only here and, for volumes and
their directories, in `volume_names.py`."""

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
"""Kind of the owner of an object, pods included, such as `LLMService`; `Gateway` on objects of a gateway."""
OWNER_NAME_LABEL = "daybreak.dev/owner-name"
"""Name of the owner of an object, pods included. The objects of a gateway have none."""
MODEL_LABEL = "daybreak.dev/model"
"""On worker pods: the worker group's name; a model's own name may hold characters that a label cannot."""
TOLERATIONS_ANNOTATION = "daybreak.dev/tolerations-hash"
"""On Ray pods that tolerate taints: a digest of what they tolerate."""
FIT_CHECK_ANNOTATION = "daybreak.dev/fit-check"
"""On an LLMService, ModelServer or ServeApplication: `off` leaves the fit check out, for clusters that add
nodes when pods ask for them."""
FIT_CHECK_OFF = "off"
STATE_ANNOTATION = "daybreak.dev/state"
"""On an LLMService: `Asleep` or `Awake`, as `spec.state`, over which it takes precedence."""
ROLLOUT_PAUSED_ANNOTATION = "daybreak.dev/rollout-paused"
"""On an LLMService, ModelServer or ServeApplication: `true` begins no change, as `spec.rollout.paused`."""
ROLLOUT_REVISION_ANNOTATION = "daybreak.dev/rollout-revision"
"""On an LLMService, ModelServer or ServeApplication: number of an earlier revision that is run, as
`spec.rollout.revision`, over which it takes precedence."""
CONFIGURATION_ANNOTATION = "daybreak.dev/configuration-hash"
"""On a RayService: digest of what makes replicas restart when it changes."""
CONFIGURATION_LABEL = "daybreak.dev/configuration-hash"
"""On the pods of a ModelServer: digest of what they run."""
WISHES_ANNOTATION = "daybreak.dev/pod-spec-hash"
"""On the Deployment or LeaderWorkerSet of a ModelServer, the RayService of a ServeApplication: digest of what
the spec says of the pods."""
BUILT_WITH_ANNOTATION = "daybreak.dev/built-with"
"""On a RayService: with which defaults of the operator it was built, and for which wishes, as JSON."""
CODE_ANNOTATION = "daybreak.dev/code-hash"
"""On the RayService of a ServeApplication and its pods: digest of the ConfigMap with its code."""
CACHE_ANNOTATION = "daybreak.dev/cache"
"""On a Job that fills a cache: claim and directory, as `claim/directory`."""
GATEWAY = "daybreak-gateway"
"""Name of a namespace's gateway: of its Deployment and of everything that goes with it."""
GATEWAY_COMPONENT = "gateway"
"""Component label of a gateway's objects and pods, and the name of HAProxy's container in them."""
GATEWAY_AGENT = "agent"
"""Name of the container with its agent."""
GATEWAY_PORTS = (20000, 21023)
"""The gateway's ports for services, first and last: each service has one."""
GATEWAY_ROUTE_PORTS = (19000, 19255)
"""Its ports for LLMRoutes with an address of their own, first and last."""
GATEWAY_ROUTER_PORT = 19999
"""The gateway's port for all models of the namespace."""
ROUTER = "llm"
"""Name of the Service that leads there, so no LLMService may have it."""
GATEWAY_HTTP_PORT = 9180
"""Where a gateway's agent tells of its state and metrics."""
GATEWAY_HEALTH_PORT = 9181
"""Where a gateway's supervisor is asked by the kubelet."""
GATEWAY_STREAM_SECONDS = 3600
"""For how long a model may be silent while it answers: an answer may take as long at least."""
GATEWAY_PROOF_HEADER = "X-Daybreak-Token"
"""In the head of a gateway's stream of states: by whose account it speaks."""
OPERATOR_AUDIENCE = "daybreak-operator"
"""For whom that token is."""
GATEWAY_PROOF_FOLDER = "/run/daybreak-token"
"""Where a gateway finds it, as `token`."""
GATEWAY_PROOF_VOLUME = "token"
"""Name of the volume there."""
GATEWAY_FOLDER = "/run/daybreak-gateway"
"""Where HAProxy and agent of a gateway have their sockets and the configuration, in memory."""
GATEWAY_KEYS_FOLDER = "/run/daybreak-keys"
"""Below it, each Secret with API keys appears."""
SHARED_KEYS = "daybreak-api-keys"
"""The Secret that a gateway always has, whether it is there or not: new keys in it need no new pods."""
GATEWAY_RUN_VOLUME = "run"
"""Name of the volume at GATEWAY_FOLDER."""
GATEWAY_KEYS_VOLUME_PREFIX = "keys-"
"""With it begin the names of the volumes with keys."""

BENCHMARK_ANNOTATION = "daybreak.dev/benchmark-hash"
"""On a Job: digest of the part of its LLMBenchmark's spec that may not change once it has begun."""
MEASURED_ANNOTATION = "daybreak.dev/engine-hash"
"""On a Job of an LLMBenchmark: digest of the engine that it measures."""
BATCH_ANNOTATION = "daybreak.dev/batch-hash"
"""On a RayJob: digest of the part of its LLMBatch's spec that may not change once the batch has begun."""
RAY_CLUSTER_ANNOTATION = "daybreak.dev/ray-cluster-hash"
"""On a RayJob, and the RayService of a ServeApplication: digest of its Ray cluster's configuration."""
OWNER_PREFIXES = {
    "LLMBatch": "batch.",
    "LLMBenchmark": "benchmark.",
    "ModelServer": "server.",
    "ServeApplication": "application.",
    "LLMRoute": "route.",
}
"""Beginning of an owner's name in labels, in names of its objects and towards gateways, by kind.

An LLMService has none, and a name without a dot, so objects of two kinds may have one name."""
_SERVICE_KIND = "LLMService"
GATEWAY_KIND = "Gateway"
"""Kind of the gateway of a namespace, as the owner of its objects. There is no object of that kind."""
SERVE_APPLICATION = "app"
"""Name of the Ray Serve application of a ServeApplication, that of its own import path."""
SERVER_COMPONENT = "server"
"""Component label of a ModelServer's objects and pods."""
SERVER_WORKER_COMPONENT = "server-worker"
"""The same of the pods of a replica on several nodes that take no requests."""

RAY_CLUSTER_LABEL = "ray.io/cluster"
RAY_NODE_TYPE_LABEL = "ray.io/node-type"
RAY_GROUP_LABEL = "ray.io/group"
RAY_SERVE_LABEL = "ray.io/serve"
POD_GROUP_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
"""LeaderWorkerSet's: which replica a pod belongs to."""

FIELD_MANAGER = "daybreak-operator"
APPLICATION = "llm"
"""Name of the one Ray Serve application of a service."""
GROUP_NAME_LIMIT = 40
"""Longest worker group name: with the cluster's name it must stay readable in a pod's name."""
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
"""Kubernetes' label of a Job's pods."""
ACCELERATOR_CLAIM = "daybreak-accelerators"
"""Name of a worker pod's claim on its accelerators (DRA)."""


def labels(service: str, component: str) -> dict[str, str]:
    """Labels of an object of the LLMService `service`."""
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
    """Return the owner that an object's labels identify, as in `of_owner`, or None if they do not."""
    if not labels or OWNER_KIND_LABEL not in labels:
        return None
    kind, name = labels[OWNER_KIND_LABEL], labels.get(OWNER_NAME_LABEL, "")
    return "" if kind == GATEWAY_KIND else of_owner(kind, name)


def _kind_of(owner: str) -> str:
    """The kind, in lower case, of what this stands for."""
    return kind_and_name(owner)[0].lower()


def kind_and_name(owner: str) -> tuple[str, str]:
    """Kind and name of the object of ours that this stands for; empty: a gateway."""
    if not owner:
        return GATEWAY_KIND, ""
    for kind, prefix in OWNER_PREFIXES.items():
        if owner.startswith(prefix):
            return kind, owner.removeprefix(prefix)
    return _SERVICE_KIND, owner


def of_owner(kind: str, name: str) -> str:
    """What stands, in labels and names of objects, for an object of ours of that kind."""
    return f"{OWNER_PREFIXES.get(kind, '')}{name}"


def benchmark_job(benchmark: str) -> str:
    """Name of the Job of an LLMBenchmark."""
    return f"{benchmark}-benchmark"


def benchmark_report(benchmark: str) -> str:
    """Name of the ConfigMap with the report of an LLMBenchmark."""
    return f"{benchmark}-report"


def benchmark_manager(benchmark: str, uid: str) -> str:
    """Field manager of what an LLMBenchmark writes into an LLMService.

    Each has its own: with one for all, an apply would take back what another benchmark had written.
    """
    return f"daybreak-benchmark-{benchmark}-{uid[:8]}"


def server_deployment(server: str) -> str:
    """Name of the Deployment of a ModelServer, or of its LeaderWorkerSet."""
    return f"{server}-server"


def ray_job(batch: str) -> str:
    """Name of the RayJob: the LLMBatch's own."""
    return batch


def prepare_resource(model: str) -> str:
    """Ray resource of the pods of this model's worker group, for what runs beside the engine."""
    return f"prepare-{worker_group(model)}"


def gateway_labels() -> dict[str, str]:
    """Labels of the objects and pods of a namespace's gateway."""
    return {
        NAME_LABEL: GATEWAY,
        COMPONENT_LABEL: GATEWAY_COMPONENT,
        MANAGED_BY_LABEL: MANAGED_BY,
        PART_OF_LABEL: MANAGED_BY,
        **owner_labels(""),
    }


def operator_selector() -> dict[str, str]:
    """What Daybreak's operator is known by in NetworkPolicies, in its namespace."""
    return {COMPONENT_LABEL: "operator", PART_OF_LABEL: "daybreak"}


def gateway_selector() -> dict[str, str]:
    """What the gateway pods of a namespace are selected by."""
    return {NAME_LABEL: GATEWAY, COMPONENT_LABEL: GATEWAY_COMPONENT}


def revision(service: str, digest: str) -> str:
    """Name of the ControllerRevision of a service with this content; `digest` has 10 characters at most."""
    return f"{service}-{digest}"


def ray_service(service: str) -> str:
    """Name of the RayService: the LLMService's own."""
    return service


def front_service(service: str) -> str:
    """Name of the Service that clients use: the LLMService's own."""
    return service


def service_account(service: str) -> str:
    """Name of the ServiceAccount of the Ray pods.

    At most 50 characters, for KubeRay cuts the head's ServiceAccount name down to its last 50.
    """
    return f"{service}-sa"


def network_policy(service: str) -> str:
    """Name of the NetworkPolicy that closes the Ray ports."""
    return f"{service}-ray"


def disruption_budget(service: str) -> str:
    """Name of the PodDisruptionBudget of the Ray pods."""
    return f"{service}-ray"


INGRESS_DEPLOYMENT = "OpenAiIngress"
"""Name that Ray Serve LLM gives the deployment that speaks OpenAI's API."""
HEAD_RESOURCE = "daybreak-head"
"""Ray resource that only the head has: what asks for it runs there."""


def model_resource(model: str) -> str:
    """Ray resource that only the pods of this model's worker group have."""
    return f"model-{worker_group(model)}"


def serve_deployment(model: str) -> str:
    """Name that Ray Serve LLM gives the model's deployment (it replaces `/` and `.`)."""
    return f"LLMServer:{model.replace('/', '--').replace('.', '_')}"


def worker_group(model: str) -> str:
    """Name of a model's worker group: a DNS label, the model's name where it is one already.

    Any other name is written in lower-case letters, digits and `-`, with a short digest of the
    original, so that two different models never meet in one group.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
    if plain == model and len(plain) <= GROUP_NAME_LIMIT:
        return plain
    digest = hashlib.sha256(model.encode()).hexdigest()[:6]
    return f"{plain[: GROUP_NAME_LIMIT - 7].rstrip('-')}-{digest}"


def address(service: str, namespace: str) -> str:
    """Base URL inside the cluster of what speaks any protocol."""
    return f"http://{front_service(service)}.{namespace}.svc"


def route_application(prefix: str) -> str:
    """Name of the Ray Serve application at a route of a ServeApplication."""
    return f"{SERVE_APPLICATION}-{worker_group(prefix.strip('/'))}"


def group_resource(group: str) -> str:
    """Ray resource that only the pods of this worker group have."""
    return f"group-{group}"


def url(service: str, namespace: str) -> str:
    """Base URL for an OpenAI client inside the cluster."""
    return f"http://{front_service(service)}.{namespace}.svc/v1"
