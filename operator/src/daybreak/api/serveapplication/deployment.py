"""Deployments of an application, and the pods for them."""

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
    """Replicas by the requests in progress (Ray Serve's autoscaling)."""

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
    """Fewest replicas while the application is awake; its last one goes with sleep."""
    max_replicas: Annotated[int, Field(ge=1, le=1000)]
    """Most replicas."""
    initial_replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Replicas at the start. Unset: `minReplicas`."""
    target_ongoing_requests: Annotated[float, Field(gt=0, le=100_000)] = 2
    """Requests in progress for each replica that is aimed at."""
    upscale_delay: Duration = "30s"
    """How long more replicas must be wanted before they are added."""
    downscale_delay: Duration = "10m"
    """How long fewer replicas must be wanted before one is removed."""
    upscaling_factor: Annotated[float, Field(gt=0, le=100)] | None = None
    """Scales the steps upwards; above 1 is quicker. Unset: 1."""
    downscaling_factor: Annotated[float, Field(gt=0, le=100)] | None = None
    """Scales the steps downwards; below 1 is slower. Unset: 1."""
    look_back_period: PositiveDuration = "30s"
    """Over how long requests in progress are averaged."""


class Bundle(ApiModel):
    """What one bundle of a placement group holds."""

    rules = (
        Rule(
            "!has(self.accelerators) || self.accelerators <= 1.0 || "
            "self.accelerators == double(int(self.accelerators))",
            f"accelerators: {_WHOLE}",
            lambda self: _shareable(self.accelerators),
        ),
    )

    cpu: Quantity = "1"
    """Cores that Ray books."""
    accelerators: Accelerators = 0
    """Accelerators, in fractions of one."""


class Strategy(StrEnum):
    """How the bundles of a replica are placed (Ray's placement group strategies)."""

    PACK = "PACK"
    STRICT_PACK = "STRICT_PACK"
    SPREAD = "SPREAD"
    STRICT_SPREAD = "STRICT_SPREAD"


class PlacementGroup(ApiModel):
    """Room of a replica that starts actors or tasks of its own. The replica itself is in the first bundle."""

    bundles: Annotated[list[Bundle], Field(min_length=1, max_length=64)]
    """The bundles of one replica."""
    strategy: Strategy = Strategy.PACK
    """`PACK` or `STRICT_PACK`: one pod holds them all; `SPREAD` or `STRICT_SPREAD`: each is in a pod of its
    own."""


class LogLevel(StrEnum):
    """From which level on replicas log."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class LogEncoding(StrEnum):
    """How replicas write a log line."""

    TEXT = "TEXT"
    JSON = "JSON"


class Logging(ApiModel):
    """What replicas of a deployment log."""

    level: LogLevel = LogLevel.INFO
    """From which level on."""
    encoding: LogEncoding = LogEncoding.TEXT
    """`TEXT`, or `JSON` with one object for each line."""
    access_log: bool = True
    """Whether there is a line for each request."""


class Deployment(ApiModel):
    """One deployment, with Ray Serve's settings."""

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
            "maxReplicasPerNode does not go with placementGroup, whose strategy places replicas",
            lambda self: self.max_replicas_per_node is None or self.placement_group is None,
        ),
    )

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_][A-Za-z0-9_.:-]*$", max_length=128)]
    """Its name in the code: that of the class or function, unless `@serve.deployment(name=…)` says other."""
    route: Prefix | None = None
    """Prefix of the route whose application it belongs to. Unset: it belongs to that of `spec.importPath`."""
    worker_group: GroupName | None = None
    """The pods that it runs in, by name: one of `workerGroups`, or a name that several deployments share so
    that they share pods and, with fractions, an accelerator. Unset: see `workerGroups`."""
    num_replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Replicas while it is awake. Unset: 1, or what `autoscaling` says."""
    autoscaling: Autoscaling | None = None
    """Replicas by the requests in progress."""
    max_ongoing_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    """Most requests that one replica takes at once."""
    max_queued_requests: Annotated[int, Field(ge=-1, le=1_000_000)] = -1
    """Most requests that wait for a replica at each caller; more are answered with 503. -1: any number."""
    max_replicas_per_node: Annotated[int, Field(ge=1, le=100)] | None = None
    """Most of its replicas in one pod (a node to Ray), so that a pod that ends takes no more of them with it.
    Unset: as many as have room. A change restarts its replicas."""
    health_check_period: PositiveDuration = "10s"
    """How often Serve checks a replica."""
    health_check_timeout: PositiveDuration = "30s"
    """How long a check may take before it counts as failed."""
    graceful_shutdown_wait: Duration = "2s"
    """Pause between looks at whether a stopping replica has finished its requests."""
    graceful_shutdown_timeout: Duration = "20s"
    """How long a stopping replica may take to finish its requests."""
    cpu: Quantity = "1"
    """Cores that Ray books for a replica, fractions of one included."""
    memory: Quantity | None = None
    """Memory of a replica, for which Ray finds room too. Unset: 1Gi of its pod, and 16Gi more for each
    accelerator."""
    accelerators: Accelerators = 0
    """Accelerators of a replica: a fraction shares one with others of the same worker group."""
    placement_group: PlacementGroup | None = None
    """Room for actors that a replica starts itself."""
    user_config: EngineArgs | None = None
    """Handed to `reconfigure` of its replicas, also while they run."""
    logging: Logging | None = None
    """What its replicas log. Unset: from INFO on, as text, with a line for each request."""

    @property
    def fewest(self) -> int:
        """Replicas that it has at least while it is awake."""
        return self.autoscaling.min_replicas if self.autoscaling is not None else self.num_replicas or 1

    @property
    def most(self) -> int:
        """Replicas that it has at most."""
        return self.autoscaling.max_replicas if self.autoscaling is not None else self.fewest


class WorkerGroup(ApiModel):
    """Pods, written out."""

    rules = (
        Rule(
            "!has(self.maxPods) || self.maxPods >= self.minPods",
            "maxPods must not be below minPods",
            lambda self: self.max_pods is None or self.max_pods >= self.min_pods,
        ),
    )

    name: GroupName
    """Its name."""
    cpu: Quantity
    """Cores that a pod requests; Ray books whole ones, rounded up."""
    memory: Quantity
    """Memory of a pod, request and limit, with what Ray itself needs."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which counts against memory. Unset: 2Gi for each accelerator, 1Gi without."""
    accelerators: Annotated[int, Field(ge=0, le=64)] = 0
    """Accelerators of a pod."""
    min_pods: Annotated[int, Field(ge=0, le=1000)] = 1
    """Fewest pods while it is awake."""
    max_pods: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Most pods. Unset: as many as one for each replica that its deployments may have."""
    node_selector: Labels | None = None
    """Labels that a node must have. Unset: those of `accelerator` where it has accelerators."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that its pods tolerate. Unset: likewise."""
    pod_template: PodTemplate | None = None
    """What to add to its pods."""
