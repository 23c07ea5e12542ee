"""Conditions that follow kstatus: their types, and every reason."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.schema.base import ApiModel

MAX_AFTER = 8
"""Maximum number of workloads that a status lists as ahead of a workload in the accelerator queue."""


class ConditionType(StrEnum):
    """Types of conditions, in the order in which the operator writes them."""

    READY = "Ready"
    """True if requests are answered: the address is routed, and every model has answered."""
    ACTIVE = "Active"
    """True if accelerators are allocated. Independent of `Ready`: a sleeping service is ready."""
    SCHEDULABLE = "Schedulable"
    """False if no node fits a replica; the message has the numbers and the nearest fix."""
    RECONCILING = "Reconciling"
    """True if a change is in progress (kstatus: in progress)."""
    STALLED = "Stalled"
    """True if action is required (kstatus: failed). Returns to False when the cause is gone."""


class Reason(StrEnum):
    """Every reason that a condition can have."""

    SERVING = "Serving"
    """The address is routed, and every model has answered."""
    PROGRESSING = "Progressing"
    """The workload is starting; the message shows what is still missing."""
    UPDATING = "Updating"
    """A change of the spec is in progress in the running pods."""
    REPLACING = "Replacing"
    """Pods are being replaced: requests are held until the new pods answer."""
    ROLLOUT_BLOCKED = "RolloutBlocked"
    """A change has not begun, because the strategy does not allow it; the message has the nearest fix."""
    ROLLED_BACK = "RolledBack"
    """A change could not start; the revision that answered before runs, or is being restored."""
    ROLLOUT_FAILED = "RolloutFailed"
    """A change could not start, and stays: rollback is disabled, or no revision has answered."""
    PAUSED = "Paused"
    """A change has not begun, because a user has paused rollouts."""
    RECONCILED = "Reconciled"
    """No work is left."""
    AWAKE = "Awake"
    """Accelerators are allocated."""
    ASLEEP = "Asleep"
    """No clients send requests, so no accelerators are allocated."""
    WAKING = "Waking"
    """A model wakes from sleep; requests are held during the wake."""
    WAITING_FOR_ACCELERATORS = "WaitingForAccelerators"
    """A model is starting, but its pods are not scheduled: others use the same accelerators, or are ahead in
    the accelerator queue. For a model without accelerators, the same applies to CPUs and memory."""
    WAKE_TIMED_OUT = "WakeTimedOut"
    """The wake has exceeded the hold time of requests; the message shows what is still missing."""
    GATEWAY_NOT_REPORTING = "GatewayNotReporting"
    """No gateway of the namespace reports, so the state of requests is unknown and they may not be
    forwarded."""
    STARTING = "Starting"
    """Pods or models are starting."""
    NODES_FIT = "NodesFit"
    """Nodes have capacity for a replica of every model."""
    NO_NODE_FITS = "NoNodeFits"
    """No node has capacity for a replica; the message has the numbers and the nearest fix."""
    NODES_UNKNOWN = "NodesUnknown"
    """Nodes are not checked: the operator has no access to nodes, or the fit check is off."""
    INVALID_SPEC = "InvalidSpec"
    """The spec is invalid; the message names each field and the nearest fix."""
    NAME_CONFLICT = "NameConflict"
    """An object with a name that Daybreak needs exists and belongs to another owner."""
    KUBERAY_NOT_INSTALLED = "KubeRayNotInstalled"
    """The API server has no kind RayService: KubeRay is not installed."""
    LEADER_WORKER_SET_NOT_INSTALLED = "LeaderWorkerSetNotInstalled"
    """A replica needs several nodes, and the API server has no kind LeaderWorkerSet."""
    OBJECT_REJECTED = "ObjectRejected"
    """The API server rejected an object; the message is that of the API server."""
    CODE_NOT_FOUND = "CodeNotFound"
    """The ConfigMap with the code of an application does not exist."""
    FILLING_CACHE = "FillingCache"
    """A Job copies the weights of a model into its PVC; worker pods are created after it is done."""
    CACHE_FAILED = "CacheFailed"
    """The weights of a model cannot be copied into its PVC; the message has the cause. The operator
    retries."""
    MODEL_FAILED = "ModelFailed"
    """A model cannot start; the message is that of the engine."""
    IMAGE_PULL_FAILED = "ImagePullFailed"
    """An image cannot be pulled."""
    CONTAINER_CONFIG_FAILED = "ContainerConfigFailed"
    """A container cannot be created, for example because of a missing Secret."""
    CONTAINER_CRASHING = "ContainerCrashing"
    """A container keeps crashing."""
    UNSCHEDULABLE = "Unschedulable"
    """Kubernetes cannot schedule a pod; the message is that of the scheduler."""
    PROBE_FAILED = "ProbeFailed"
    """All pods run, but a model does not answer the operator's probe."""
    BACKEND_UNREACHABLE = "BackendUnreachable"
    """Every model answers, but no gateway reaches the models: requests are held."""
    TERMINATING = "Terminating"
    """The service is being deleted."""


Truth = Literal["True", "False", "Unknown"]
ShortCondition = tuple[Truth, Reason, str]
"""Short form of a condition: status, reason and message."""


class Condition(ApiModel):
    """Standard Kubernetes condition."""

    type: Annotated[str, Field(max_length=316)]
    """Type of the condition."""
    status: Truth
    """Status of the condition: `True`, `False` or `Unknown`."""
    reason: Annotated[str, Field(max_length=1024)]
    """UpperCamelCase reason for the status, for automation."""
    message: Annotated[str, Field(max_length=32768)]
    """Explanation of the status for display, with the numbers and the nearest fix."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time at which `status` last changed."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """Generation of the spec that the condition describes."""
