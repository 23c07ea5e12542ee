"""Conditions that follow kstatus: their types, and every reason that one can carry."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.schema.base import ApiModel

MAX_AFTER = 8
"""Most workloads that a status names as those that come before it where accelerators are scarce."""


class ConditionType(StrEnum):
    """The conditions, in the order in which they are written."""

    READY = "Ready"
    """True: an answer comes. The address routes and every model has answered."""
    ACTIVE = "Active"
    """True: accelerators are held. Outside the Ready set: a sleeping service is ready."""
    SCHEDULABLE = "Schedulable"
    """False: no node fits a replica; the message has the numbers and the nearest fix."""
    RECONCILING = "Reconciling"
    """True: on the way (kstatus: in progress)."""
    STALLED = "Stalled"
    """True: somebody has to act (kstatus: failed). Clears by itself when the cause is gone."""


class Reason(StrEnum):
    """Every reason that a condition can carry."""

    SERVING = "Serving"
    """The address routes and every model has answered."""
    PROGRESSING = "Progressing"
    """On the way; the message says what is waited for."""
    UPDATING = "Updating"
    """A change of the spec is on its way to the running pods."""
    REPLACING = "Replacing"
    """The pods are being replaced: requests are held until the new ones answer."""
    ROLLOUT_BLOCKED = "RolloutBlocked"
    """A change is not begun, since the strategy cannot make it; the message has the nearest fix."""
    ROLLED_BACK = "RolledBack"
    """A change could not start, and what answered before runs, or is on its way back."""
    ROLLOUT_FAILED = "RolloutFailed"
    """A change could not start, and stays, since nothing shall be rolled back or nothing has answered."""
    PAUSED = "Paused"
    """A change is not begun: a person has paused rollouts."""
    RECONCILED = "Reconciled"
    """Nothing is left to do."""
    AWAKE = "Awake"
    """Accelerators are held."""
    ASLEEP = "Asleep"
    """Nobody asks, so no accelerators are held."""
    WAKING = "Waking"
    """On the way up from sleep; requests are held until then."""
    WAITING_FOR_ACCELERATORS = "WaitingForAccelerators"
    """On the way up, and its pods stand on no nodes: others hold the same accelerators, or want them before
    it; of a model without, the same cores and memory."""
    WAKE_TIMED_OUT = "WakeTimedOut"
    """Waking has taken longer than requests are held; the message says what is waited for."""
    GATEWAY_NOT_REPORTING = "GatewayNotReporting"
    """No gateway of the namespace is heard, so nothing is known of requests and none may get through."""
    STARTING = "Starting"
    """Pods or models are starting."""
    NODES_FIT = "NodesFit"
    """Nodes have room for a replica of every model."""
    NO_NODE_FITS = "NoNodeFits"
    """No node has room for a replica; the message has the numbers and the nearest fix."""
    NODES_UNKNOWN = "NodesUnknown"
    """Nobody has looked: the operator may not see nodes, or the fit check is turned off."""
    INVALID_SPEC = "InvalidSpec"
    """The spec cannot be built; the message names each field and the nearest fix."""
    NAME_CONFLICT = "NameConflict"
    """An object of a name that Daybreak needs belongs to somebody else."""
    KUBERAY_NOT_INSTALLED = "KubeRayNotInstalled"
    """The API server knows no RayService: KubeRay is not installed."""
    LEADER_WORKER_SET_NOT_INSTALLED = "LeaderWorkerSetNotInstalled"
    """A replica is to have several nodes, and the API server knows no LeaderWorkerSet."""
    OBJECT_REJECTED = "ObjectRejected"
    """The API server refused an object; the message is its own."""
    CODE_NOT_FOUND = "CodeNotFound"
    """The ConfigMap with the code of an application is not there."""
    FILLING_CACHE = "FillingCache"
    """A Job copies the weights of a model into its claim; no worker pod is made before it is done."""
    CACHE_FAILED = "CacheFailed"
    """The weights of a model cannot be copied into its claim; the message says why. It is tried again."""
    MODEL_FAILED = "ModelFailed"
    """A model cannot start; the message is the engine's own."""
    IMAGE_PULL_FAILED = "ImagePullFailed"
    """An image cannot be pulled."""
    CONTAINER_CONFIG_FAILED = "ContainerConfigFailed"
    """A container cannot be made, such as for a missing Secret."""
    CONTAINER_CRASHING = "ContainerCrashing"
    """A container ends again and again."""
    UNSCHEDULABLE = "Unschedulable"
    """Kubernetes finds no place for a pod; the message is the scheduler's own."""
    PROBE_FAILED = "ProbeFailed"
    """Everything runs, but a model does not answer when it is asked."""
    BACKEND_UNREACHABLE = "BackendUnreachable"
    """Every model answers, but no gateway reaches them: requests are held."""
    TERMINATING = "Terminating"
    """The service is being deleted."""


Truth = Literal["True", "False", "Unknown"]
Said = tuple[Truth, Reason, str]
"""A condition in short: its status, its reason, its message."""


class Condition(ApiModel):
    """A standard Kubernetes condition."""

    type: Annotated[str, Field(max_length=316)]
    """Type of the condition."""
    status: Truth
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=1024)]
    """Why, in one word for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, in a sentence for people, with the numbers and the nearest fix."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When `status` last changed."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation that the condition speaks of."""
