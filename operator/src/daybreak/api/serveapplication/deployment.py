"""Deployments of an application, and their pods."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.pods.pod_template import PodTemplate
from daybreak.api.ray.model import EngineArgs
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalar_types import Duration, Labels, PositiveDuration, Quantity
from daybreak.api.schema.scalars import DNS_LABEL
from daybreak.api.serveapplication.route import Prefix

Accelerators = Annotated[float, Field(ge=0, le=64)]
GroupName = Annotated[str, Field(pattern=rf"^{DNS_LABEL}$", max_length=40)]
_WHOLE = "a share of one accelerator is below 1, several are a whole number"


def _shareable(number: float) -> bool:
    return number <= 1 or number == int(number)


class Autoscaling(ApiModel):
    """Number of replicas by the requests in progress (Ray Serve's autoscaling)."""

    rules = (
        Rule(
            "self.maxReplicas >= self.minReplicas",
            "autoscaling.maxReplicas must not be below autoscaling.minReplicas",
            lambda self: self.max_replicas >= self.min_replicas,
        ),
        Rule(
            "!has(self.initialReplicas) || "
            "(self.initialReplicas >= self.minReplicas && self.initialReplicas <= self.maxReplicas)",
            "autoscaling.initialReplicas must lie between minReplicas and maxReplicas",
            lambda self: (
                self.initial_replicas is None
                or self.min_replicas <= self.initial_replicas <= self.max_replicas
            ),
        ),
    )

    min_replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    """Minimum number of replicas while the application is awake. The last replica stops with sleep."""
    max_replicas: Annotated[int, Field(ge=1, le=1000)]
    """Maximum number of replicas."""
    initial_replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Number of replicas at the start. Defaults to `minReplicas`."""
    target_ongoing_requests: Annotated[float, Field(gt=0, le=100_000)] = 2
    """Target number of requests in progress per replica."""
    upscale_delay: Duration = "30s"
    """Time for which more replicas must be required before Serve adds them."""
    downscale_delay: Duration = "10m"
    """Time for which fewer replicas must be required before Serve removes one."""
    upscaling_factor: Annotated[float, Field(gt=0, le=100)] | None = None
    """Factor of the upscaling steps; above 1 is faster. Defaults to 1."""
    downscaling_factor: Annotated[float, Field(gt=0, le=100)] | None = None
    """Factor of the downscaling steps; below 1 is slower. Defaults to 1."""
    look_back_period: PositiveDuration = "30s"
    """Period over which autoscaling averages the requests in progress."""


class Bundle(ApiModel):
    """Resources of one bundle of a placement group."""

    rules = (
        Rule(
            "!has(self.accelerators) || self.accelerators <= 1.0 || "
            "self.accelerators == double(int(self.accelerators))",
            f"accelerators: {_WHOLE}",
            lambda self: _shareable(self.accelerators),
        ),
    )

    cpu: Quantity = "1"
    """Number of CPUs that Ray reserves."""
    accelerators: Accelerators = 0
    """Number of accelerators, or a fraction of one."""


class Strategy(StrEnum):
    """Placement of a replica's bundles (Ray's placement group strategies)."""

    PACK = "PACK"
    STRICT_PACK = "STRICT_PACK"
    SPREAD = "SPREAD"
    STRICT_SPREAD = "STRICT_SPREAD"


class PlacementGroup(ApiModel):
    """Capacity for a replica that starts its own actors or tasks.

    The replica itself is in the first bundle.
    """

    bundles: Annotated[list[Bundle], Field(min_length=1, max_length=64)]
    """Bundles of one replica."""
    strategy: Strategy = Strategy.PACK
    """Placement of the bundles. `PACK` or `STRICT_PACK`: one pod has all bundles. `SPREAD` or
    `STRICT_SPREAD`: each bundle has its own pod."""


class LogLevel(StrEnum):
    """Minimum level of the messages that replicas log."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class LogEncoding(StrEnum):
    """Format of a replica's log lines."""

    TEXT = "TEXT"
    JSON = "JSON"


class Logging(ApiModel):
    """Log settings of a deployment's replicas."""

    level: LogLevel = LogLevel.INFO
    """Minimum level of logged messages."""
    encoding: LogEncoding = LogEncoding.TEXT
    """Log format: `TEXT`, or `JSON` with one object per line."""
    access_log: bool = True
    """If true, replicas log a line for each request."""


class Deployment(ApiModel):
    """Deployment of an application, with Ray Serve's settings."""

    rules = (
        Rule(
            "!has(self.numReplicas) || !has(self.autoscaling)",
            "write numReplicas or autoscaling, not both",
            lambda self: self.num_replicas is None or self.autoscaling is None,
        ),
        Rule(
            "!has(self.accelerators) || self.accelerators <= 1.0 || "
            "self.accelerators == double(int(self.accelerators))",
            f"accelerators: {_WHOLE}",
            lambda self: _shareable(self.accelerators),
        ),
        Rule(
            "!has(self.maxQueuedRequests) || self.maxQueuedRequests != 0",
            "maxQueuedRequests is -1 (no limit) or at least 1",
            lambda self: self.max_queued_requests != 0,
        ),
        Rule(
            "!has(self.maxReplicasPerNode) || !has(self.placementGroup)",
            "maxReplicasPerNode conflicts with placementGroup, because its strategy places replicas",
            lambda self: self.max_replicas_per_node is None or self.placement_group is None,
        ),
    )

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_][A-Za-z0-9_.:-]*$", max_length=128)]
    """Name of the deployment in the code: that of the class or function, unless
    `@serve.deployment(name=…)` sets another."""
    route: Prefix | None = None
    """Route prefix of the application to which the deployment belongs. Defaults to the application of
    `spec.importPath`."""
    worker_group: GroupName | None = None
    """Worker group in which the deployment runs: one of `workerGroups`, or a name that several deployments
    share. Deployments with the same name share pods and, with fractions, an accelerator. If unset, see
    `workerGroups`."""
    num_replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Number of replicas while the application is awake. Defaults to 1, or to the range of `autoscaling`."""
    autoscaling: Autoscaling | None = None
    """Number of replicas by the requests in progress."""
    max_ongoing_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    """Maximum number of requests that one replica processes at once."""
    max_queued_requests: Annotated[int, Field(ge=-1, le=1_000_000)] = -1
    """Maximum number of requests that wait for a replica at each caller. Further requests receive 503. -1
    means no limit."""
    max_replicas_per_node: Annotated[int, Field(ge=1, le=100)] | None = None
    """Maximum number of the deployment's replicas in one pod (a node in Ray). It limits how many replicas
    stop when a pod ends. Defaults to as many as fit. A change restarts the deployment's replicas."""
    health_check_period: PositiveDuration = "10s"
    """Interval at which Serve checks a replica."""
    health_check_timeout: PositiveDuration = "30s"
    """Maximum duration of a health check before it counts as failed."""
    graceful_shutdown_wait: Duration = "2s"
    """Interval at which a stopping replica checks if its requests have finished."""
    graceful_shutdown_timeout: Duration = "20s"
    """Maximum time for a stopping replica to finish its requests."""
    cpu: Quantity = "1"
    """Number of CPUs that Ray reserves for a replica; fractions of one are allowed."""
    memory: Quantity | None = None
    """Memory of a replica. If set, Ray also reserves it. Defaults to 1Gi of the pod, plus 16Gi for each
    accelerator."""
    accelerators: Accelerators = 0
    """Number of accelerators of a replica. With a fraction, replicas of the same worker group share one
    accelerator."""
    placement_group: PlacementGroup | None = None
    """Capacity for actors that a replica starts itself."""
    user_config: EngineArgs | None = None
    """Configuration that Serve passes to `reconfigure` of the replicas, also while they run."""
    logging: Logging | None = None
    """Log settings of the replicas. Defaults to level INFO, as text, with a line for each request."""

    @property
    def fewest(self) -> int:
        """Return the minimum number of replicas while the application is awake."""
        return self.autoscaling.min_replicas if self.autoscaling is not None else self.num_replicas or 1

    @property
    def most(self) -> int:
        """Return the maximum number of replicas."""
        return self.autoscaling.max_replicas if self.autoscaling is not None else self.fewest


class WorkerGroup(ApiModel):
    """Group of pods with explicit settings."""

    rules = (
        Rule(
            "!has(self.maxPods) || self.maxPods >= self.minPods",
            "maxPods must not be below minPods",
            lambda self: self.max_pods is None or self.max_pods >= self.min_pods,
        ),
    )

    name: GroupName
    """Name of the worker group."""
    cpu: Quantity
    """CPU request of a pod. Ray counts whole CPUs, rounded up."""
    memory: Quantity
    """Memory request and limit of a pod, including the memory that Ray itself needs."""
    shared_memory: Quantity | None = None
    """Size of `/dev/shm`, which counts against memory. Defaults to 2Gi for each accelerator, or to 1Gi
    without accelerators."""
    accelerators: Annotated[int, Field(ge=0, le=64)] = 0
    """Number of accelerators of a pod."""
    min_pods: Annotated[int, Field(ge=0, le=1000)] = 1
    """Minimum number of pods while the application is awake."""
    max_pods: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Maximum number of pods. Defaults to one for each replica that the group's deployments may have."""
    node_selector: Labels | None = None
    """Labels that a node must have. Defaults to those of `accelerator` if the group has accelerators."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that the pods tolerate. Defaults to those of `accelerator` if the group has accelerators."""
    pod_template: PodTemplate | None = None
    """Additions to the pods."""
