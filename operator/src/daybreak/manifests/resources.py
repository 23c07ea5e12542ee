"""Kinds that the operator reads or writes, and their paths on the API server."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.schema.resource import Resource

SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
DISRUPTION_BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
SERVICES = Resource("", "v1", "Service", "services")
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
RAY_SERVICES = Resource("ray.io", "v1", "RayService", "rayservices")
RAY_JOBS = Resource("ray.io", "v1", "RayJob", "rayjobs")
RAY_CLUSTERS = Resource("ray.io", "v1", "RayCluster", "rayclusters")
PODS = Resource("", "v1", "Pod", "pods")
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
JOBS = Resource("batch", "v1", "Job", "jobs")
CONTROLLER_REVISIONS = Resource("apps", "v1", "ControllerRevision", "controllerrevisions")
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")

OWNED = (
    CONTROLLER_REVISIONS,
    SERVICE_ACCOUNTS,
    NETWORK_POLICIES,
    DISRUPTION_BUDGETS,
    SERVICES,
    PERSISTENT_VOLUME_CLAIMS,
    JOBS,
    RAY_SERVICES,
)
"""Kinds that the operator creates for an LLMService."""

OF_BATCHES = (SERVICE_ACCOUNTS, NETWORK_POLICIES, RAY_JOBS)
"""Kinds that the operator creates for an LLMBatch."""

OF_BENCHMARKS = (SERVICE_ACCOUNTS, NETWORK_POLICIES, JOBS)
"""Kinds that the operator creates for an LLMBenchmark."""

OF_SERVERS = (
    CONTROLLER_REVISIONS,
    SERVICE_ACCOUNTS,
    NETWORK_POLICIES,
    DISRUPTION_BUDGETS,
    SERVICES,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
)
"""Kinds that the operator creates for a ModelServer."""

OF_APPLICATIONS = (
    CONTROLLER_REVISIONS,
    SERVICE_ACCOUNTS,
    NETWORK_POLICIES,
    DISRUPTION_BUDGETS,
    SERVICES,
    RAY_SERVICES,
)
"""Kinds that the operator creates for a ServeApplication."""

OF_ROUTES = (SERVICES,)
"""Kinds that the operator creates for an LLMRoute."""

OF_GATEWAYS = (
    SERVICE_ACCOUNTS,
    ROLES,
    ROLE_BINDINGS,
    NETWORK_POLICIES,
    DISRUPTION_BUDGETS,
    SERVICES,
    DEPLOYMENTS,
)
"""Kinds that the operator creates for the gateway of a namespace."""

_BY_KIND = {
    (resource.api_version, resource.kind): resource
    for resource in (
        *OWNED,
        *OF_BATCHES,
        *OF_BENCHMARKS,
        *OF_SERVERS,
        *OF_GATEWAYS,
        CONFIG_MAPS,
        RAY_CLUSTERS,
    )
}


def of(manifest: Mapping[str, Any]) -> Resource:
    """Return the kind of one of Daybreak's manifests."""
    return _BY_KIND[manifest["apiVersion"], manifest["kind"]]
