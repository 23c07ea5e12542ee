"""What the operator says of an LLMService: conditions that follow kstatus, and the state of each model."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.base import ApiModel
from daybreak.api.cache import CacheStatus
from daybreak.api.spec import SleepDepth

MAX_ASKABLE = 256
"""Most names that can be asked for: models and adapters of a spec, and of the one before."""


class Phase(StrEnum):
    """One word on the service, for people; programs read the conditions."""

    ASLEEP = "Asleep"
    """No accelerators are held; the service answers as soon as it is woken."""
    WAKING = "Waking"
    """On the way up, for the first time or from sleep."""
    AWAKE = "Awake"
    """Every model answers."""
    DRAINING = "Draining"
    """On the way down: requests in progress finish."""
    UPDATING = "Updating"
    """A change of the spec is on its way to the running pods."""
    FAILED = "Failed"
    """Somebody has to act; `Stalled` says on what."""


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

    ANSWERING = "Answering"
    """The address routes and every model has answered."""
    PROGRESSING = "Progressing"
    """On the way; the message says what is waited for."""
    UPDATING = "Updating"
    """A change of the spec is on its way to the running pods."""
    STEADY = "Steady"
    """Nothing is left to do."""
    AWAKE = "Awake"
    """Accelerators are held."""
    ASLEEP = "Asleep"
    """Nobody asks, so no accelerators are held."""
    WAKING = "Waking"
    """On the way up from sleep; requests are held until then."""
    GATEWAY_MISSING = "GatewayMissing"
    """No gateway of the namespace is heard, so nothing is known of requests and none may get through."""
    STARTING = "Starting"
    """Pods or models are starting."""
    FITS = "Fits"
    """Nodes have room for a replica of every model."""
    NO_NODE_FITS = "NoNodeFits"
    """No node has room for a replica; the message has the numbers and the nearest fix."""
    NODES_UNKNOWN = "NodesUnknown"
    """Nobody has looked: the operator may not see nodes, or the fit check is turned off."""
    INVALID_SPEC = "InvalidSpec"
    """The spec cannot be built; the message names each field and the nearest fix."""
    NAME_TAKEN = "NameTaken"
    """An object of a name that Daybreak needs belongs to somebody else."""
    KUBERAY_MISSING = "KubeRayMissing"
    """The API server knows no RayService: KubeRay is not installed."""
    REFUSED = "Refused"
    """The API server refused an object; the message is its own."""
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
    NOT_ANSWERING = "NotAnswering"
    """Everything runs, but a model does not answer when it is asked."""
    NOT_ROUTED = "NotRouted"
    """Every model answers, but no gateway reaches them: requests are held."""
    TERMINATING = "Terminating"
    """The service is being deleted."""


class Condition(ApiModel):
    """A standard Kubernetes condition."""

    type: Annotated[str, Field(max_length=316)]
    """Type of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=1024)]
    """Why, in one word for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, in a sentence for people, with the numbers and the nearest fix."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When `status` last changed."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation that the condition speaks of."""


class ModelState(StrEnum):
    """One word on a model."""

    PENDING = "Pending"
    """Nothing of it runs yet."""
    STARTING = "Starting"
    """Its pods or its engine are starting."""
    READY = "Ready"
    """It answers."""
    UPDATING = "Updating"
    """It answers, and a change is on its way to it."""
    ASLEEP = "Asleep"
    """It holds no accelerators."""
    FAILED = "Failed"
    """It cannot start; `message` says why."""


class AdapterState(StrEnum):
    """One word on a LoRA adapter."""

    PENDING = "Pending"
    """It is on its way into the replicas."""
    READY = "Ready"
    """Every replica that runs has it."""
    ASLEEP = "Asleep"
    """Its model sleeps; a request for either wakes it."""
    REFUSED = "Refused"
    """It cannot be used with this model; `message` says why. A change of it is tried anew."""
    FAILED = "Failed"
    """It could not be fetched; `message` says why. That is tried again."""


class AdapterStatus(ApiModel):
    """The state of one LoRA adapter."""

    name: str
    """Its name."""
    state: AdapterState
    """One word on it."""
    message: Annotated[str, Field(max_length=1024)] | None = None
    """Why it cannot be used."""
    id: str
    """Digest of where it comes from: what is said here is said of that."""


class ModelStatus(ApiModel):
    """The state of one model."""

    name: str
    """Its name."""
    state: ModelState
    """One word on it."""
    replicas: int = 0
    """Replicas whose worker pods are ready."""
    gpus: int = 0
    """Accelerators that its worker pods hold, ready or not."""
    message: Annotated[str, Field(max_length=32768)] | None = None
    """What stands in the way, in the engine's own words where it has spoken."""
    lora: Annotated[list[AdapterStatus], Field(max_length=64)] | None = None
    """Its LoRA adapters, in the order of the spec."""
    answered: str | None = None
    """What it has answered as: a fingerprint of the Ray cluster and the configuration. A change asks anew."""
    cache: CacheStatus | None = None
    """The copy of its weights, where it has a cache."""


class GateState(StrEnum):
    """What the gateway does with a request that arrives."""

    OPEN = "Open"
    """It goes to the models."""
    CLOSED = "Closed"
    """It is held until the gate opens."""
    FAILED = "Failed"
    """It is refused with the reason, and so is who is held."""


class GateStatus(ApiModel):
    """How the gateway is to treat requests to the service: the gateway reads it here."""

    state: GateState
    """What happens to a request that arrives."""
    epoch: Annotated[int, Field(ge=0)]
    """Number of the gate's last change; gateways tell back which one they have carried out."""
    port: Annotated[int, Field(ge=1, le=65535)]
    """The gateway's port for this service; the front Service leads to it."""
    hold_seconds: Annotated[int, Field(ge=1)]
    """How long a request is held before it is answered with 503."""
    cluster: str | None = None
    """The RayCluster that requests go to."""
    models: Annotated[list[str], Field(max_length=MAX_ASKABLE)] | None = None
    """Names of the models and LoRA adapters that can be asked for: those of the spec, without adapters that
    were refused. While a change of them is on its way to a service that is awake, those from before and those
    that answer already."""
    reason: Annotated[str, Field(max_length=1024)] | None = None
    """Why requests are refused, in words for clients."""


class WakePhases(ApiModel):
    """When the steps of a wake were done, in seconds after `startedAt`, at which the first request was held.

    They are written as they are done. What was there already took 0; what left no trace is left out."""

    objects: int | None = None
    """The head pod was made."""
    head_ready: int | None = None
    """The head pod was ready."""
    worker_scheduled: int | None = None
    """Every model had the worker pods of one replica on nodes."""
    worker_ready: int | None = None
    """The same pods were ready: Ray runs in them. The engines load in them from here on, or already."""
    engine_started: int | None = None
    """Every engine ran: Ray Serve's word, as KubeRay hands it on every 2 seconds, or an answer that came
    sooner."""
    first_token: int | None = None
    """Every model had given an answer, and the gate opened."""


class WakeStatus(ApiModel):
    """What waking from sleep has taken."""

    depth: SleepDepth
    """What had been given back."""
    started_at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the last wake began: with the first held request, or by order or schedule."""
    phases: WakePhases | None = None
    """Its steps, as far as they are done."""
    seconds: int | None = None
    """How long it took; absent while it goes on."""
    failed: bool | None = None
    """True when requests were refused on the way, until somebody had acted. How long such a wake took says
    nothing of others, so it is not among `recent`."""
    recent: Annotated[list[int], Field(max_length=20)] = Field(default_factory=list)
    """How long the recent wakes took, in seconds, the last one at the end."""
    p50_seconds: int | None = None
    """Their median."""
    p95_seconds: int | None = None
    """The time that 95 % of them did not exceed. Twice this is how long requests are held by default."""

    @property
    def under_way(self) -> bool:
        """Whether requests have not been let through since it began."""
        return self.seconds is None


class LLMServiceStatus(ApiModel):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status speaks of."""
    phase: Phase | None = None
    """One word on the service."""
    phase_since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the phase last changed."""
    asleep: SleepDepth | None = None
    """What is given back at present: `Workers`, or the whole `Cluster`."""
    access: Literal["Open", "ApiKeys"] | None = None
    """Who may use the service: everybody who can reach its address, or who has an API key."""
    gate: GateStatus | None = None
    """How the gateway is to treat requests."""
    wake: WakeStatus | None = None
    """What waking from sleep has taken."""
    url: str | None = None
    """Where an OpenAI client inside the cluster points its base URL."""
    replicas: int = 0
    """Ready replicas of all models together."""
    gpus: int = 0
    """Accelerators held by all models together."""
    selector: str | None = None
    """Label selector of the worker pods, for the scale subresource."""
    models: Annotated[list[ModelStatus], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """The state of each model, in the order of the spec."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: Ready, Active, Schedulable, Reconciling, Stalled."""
