"""What the status says of a workload's gate, its sleep and its wakes."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common.conditions import MAX_AFTER
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.idle_status import IdleStatus
from daybreak.api.gates.protocol import Protocol
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.schema.base import ApiModel

MAX_GATES = 32
"""Most gates of a service: for the models of a spec, and of the one before."""


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
    REPLACING = "Replacing"
    """Its pods are being replaced: requests are held until the new ones answer."""
    FAILED = "Failed"
    """Somebody has to act; `Stalled` says on what."""


class KeptAwake(StrEnum):
    """Reason for which an awake model does not yield its accelerators, whatever its traffic."""

    UPDATE = "Update"
    """A change of the spec is in progress, and nothing prevents it. It counts for at most two hours."""
    NO_ANSWER = "NoAnswer"
    """The model does not answer."""


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
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
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


class RoomStatus(ApiModel):
    """How a model waits for accelerators that others hold, and what such waits have taken."""

    position: Annotated[int, Field(ge=1)] | None = None
    """Its place among those that wait for the same accelerators, 1 for the one that comes first; absent: it
    does not wait."""
    expected_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When it may expect room: as long after the one before it as such a wait took in the median, by what all
    services that take these accelerators have measured. Absent: fewer than three have been, or the one that
    comes first has waited longer than any."""
    held_by: Annotated[list[str], Field(max_length=MAX_AFTER)] | None = None
    """Workloads that hold what it waits for, as `namespace/name`, with the model behind it where a workload
    has several that take the same accelerators. The first ones, where there are many."""
    head_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Since when it has come first; absent: it does not."""
    overdue_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Since when it lets the others try: it had come first for as long as its requests may be held, and found
    no room. Three times as long after it, it has its place again. Absent: it does not."""
    oldest_request_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Since when the oldest request has been held that waits for it: by that it has its place, also when that
    one has been refused meanwhile, as long as others are held. Absent: none is, or gateways do not tell."""
    recent_wait_seconds: Annotated[list[int], Field(max_length=10)] = Field(default_factory=list)
    """How long it took, from when it came first until it had room, in seconds, the last time at the end."""


class ModelGate(ApiModel):
    """The gate of one model, and its sleep."""

    name: Annotated[str, Field(max_length=253)]
    """The model."""
    state: GateState
    """What happens to a request that arrives for it."""
    epoch: Annotated[int, Field(ge=0)]
    """Number of the gate's last change; gateways tell back which one they have carried out."""
    hold_seconds: Annotated[int, Field(ge=1)]
    """How long a request is held before it is answered with 503."""
    adapters: Annotated[list[str], Field(max_length=64)] | None = None
    """LoRA adapters of the model that can be asked for: those of the spec, without refused ones."""
    reason: Annotated[str, Field(max_length=1024)] | None = None
    """Why requests are refused, in words for clients."""
    phase: Phase
    """One word on the model's sleep."""
    phase_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the phase began."""
    sleep_depth: SleepDepth | None = None
    """What is given back of it at present; absent: nothing."""
    kept_awake: KeptAwake | None = None
    """Reason for which the model does not yield its accelerators while it is awake; absent: none."""
    queued_behind: Annotated[list[str], Field(max_length=MAX_AFTER)] | None = None
    """On the way up, or asked in its sleep: services, as `namespace/name`, that wait for the same
    accelerators and come before it. It makes no pods until they have room. The first ones, where there are
    many."""
    yielded_to: Annotated[str, Field(max_length=317)] | None = None
    """The workload, as `namespace/name`, for whose sake it drains, or was put to sleep; absent: it sleeps by
    its own clock or by order, or does not."""
    accelerator_queue: RoomStatus | None = None
    """How it waits for accelerators that others hold; absent: it never did."""
    wake: WakeStatus | None = None
    """What waking from sleep has taken."""
    idle: IdleStatus | None = None
    """The pauses between its requests, and after which idle time it should sleep, by these and its wakes."""


class GateBackend(ApiModel):
    """Pods that requests go to: those of a Ray cluster, or of a ModelServer."""

    cluster: Annotated[str, Field(max_length=253)]
    """The RayCluster, or what stands for the ModelServer in the label `app.kubernetes.io/instance`."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Where its pods take requests; absent: where Ray pods do."""
    health_path: Annotated[str, Field(max_length=256)] | None = None
    """Path at which its pods answer 200 when they are well; absent: that of Ray pods."""
    configuration_hash: Annotated[str, Field(max_length=63)] | None = None
    """What its pods have in the label `daybreak.dev/configuration-hash`; absent: anything."""
    models: Annotated[list[str], Field(max_length=MAX_GATES)] | None = None
    """The models that it serves; absent: all."""
    weight: Annotated[int, Field(ge=0, le=100)] = 100
    """Its share of the requests, compared with other backends of the same model; at 0 it gets none."""


class GateStatus(ApiModel):
    """How the gateway is to treat requests to the service: the gateway reads it here."""

    port: Annotated[int, Field(ge=1, le=65535)]
    """The gateway's port for this service; the front Service leads to it."""
    protocol: Protocol | None = None
    """What passes there; absent: OpenAI's API."""
    backends: Annotated[list[GateBackend], Field(max_length=8)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["cluster"]},
    )
    """Where requests go; empty while there is nothing."""
    models: Annotated[list[ModelGate], Field(max_length=MAX_GATES)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """A gate for each model that can be asked for: those of the spec, and while a change of them is on its
    way to a service that is awake, those from before."""
