"""Status of a workload's gates, of its sleep and of its wakes."""

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
"""Maximum number of gates of a service: for the models of the current spec and of the previous one."""


class Phase(StrEnum):
    """Summary phase of a service or of a model, for display. Automation must use the conditions."""

    ASLEEP = "Asleep"
    """No accelerators are allocated; the service answers after a wake."""
    WAKING = "Waking"
    """The service is starting, for the first time or from sleep."""
    AWAKE = "Awake"
    """Every model answers."""
    DRAINING = "Draining"
    """The service is going to sleep: requests in progress end."""
    UPDATING = "Updating"
    """A change of the spec is in progress in the running pods."""
    REPLACING = "Replacing"
    """Pods are being replaced: requests are held until the new pods answer."""
    FAILED = "Failed"
    """Action is required; the condition `Stalled` has the cause."""


class KeptAwake(StrEnum):
    """Reason for which an awake model does not yield its accelerators, regardless of its traffic."""

    UPDATE = "Update"
    """A change of the spec is in progress and nothing prevents it. This reason applies for at most two
    hours."""
    NO_ANSWER = "NoAnswer"
    """The model does not answer."""


class WakePhases(ApiModel):
    """Times of the steps of a wake, in whole seconds after `startTime`.

    The operator writes each step when it is done. A step that was done before the wake is 0; a step that left
    no trace is absent.
    """

    objects: int | None = None
    """Creation of the head pod."""
    head_ready: int | None = None
    """Readiness of the head pod."""
    worker_scheduled: int | None = None
    """Scheduling of all worker pods of one replica onto nodes."""
    worker_ready: int | None = None
    """Readiness of all worker pods of one replica, in which Ray then runs. The engine loads in these pods
    from then on, or earlier."""
    engine_started: int | None = None
    """Start of the engine: the report of Ray Serve, which KubeRay forwards every 2 seconds, or an earlier
    answer."""
    first_token: int | None = None
    """First answer of the model, with which the gate opened."""


class WakeStatus(ApiModel):
    """Durations and steps of a model's wakes from sleep."""

    depth: SleepDepth
    """Depth of the sleep before the last wake."""
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time at which the last wake began: with the first held request, by a forced state or by a schedule."""
    phases: WakePhases | None = None
    """Completed steps of the last wake."""
    seconds: int | None = None
    """Duration of the last wake, in seconds. Absent while the wake is in progress."""
    failed: bool | None = None
    """True if requests were rejected during the wake until an administrator had fixed the problem. The
    duration of such a wake does not predict other wakes, so `recent` omits it."""
    recent: Annotated[list[int], Field(max_length=20)] = Field(default_factory=list)
    """Durations of recent wakes, in seconds, with the latest at the end."""
    p50_seconds: int | None = None
    """Median of `recent`, in seconds."""
    p95_seconds: int | None = None
    """Time, in seconds, that 95 % of the wakes in `recent` did not exceed. By default, requests are held for
    twice this time."""

    @property
    def under_way(self) -> bool:
        """Return True if the gate has not opened since the wake began."""
        return self.seconds is None


class RoomStatus(ApiModel):
    """Position of a model in the accelerator queue, and its previous waits."""

    position: Annotated[int, Field(ge=1)] | None = None
    """Position of the model in the accelerator queue; 1 is the first. Absent if the model does not wait."""
    expected_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Expected time at which the model gets accelerators. Each position adds the median of the waits that all
    services with the same accelerators have measured. Absent if fewer than three waits have been measured, or
    if the first model in the queue has waited longer than all of them."""
    held_by: Annotated[list[str], Field(max_length=MAX_AFTER)] | None = None
    """Workloads, as `namespace/name`, that use the accelerators for which the model waits. If several models
    of a workload use these accelerators, the model's name follows. Lists the first 8 workloads."""
    head_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time since which the model has been first in the accelerator queue. Absent if it is not first."""
    overdue_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time since which the model lets other queued models start first. Before that, it was first for the
    whole hold time of its requests and could not be scheduled. After three times the hold time, it has its
    position again. Absent if the model keeps its position."""
    oldest_request_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time since which the oldest request for the model has been held, which determines its position in the
    queue. If the gateway rejects that request, the time stays while other requests are held. Absent if no
    request is held, or if gateways do not report the time."""
    recent_wait_seconds: Annotated[list[int], Field(max_length=10)] = Field(default_factory=list)
    """Durations of recent waits, in seconds, from the first position in the queue to scheduled pods. The
    latest is at the end."""


class ModelGate(ApiModel):
    """Gate of one model, and the state of its sleep."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the model."""
    state: GateState
    """Action of the gateway for a request for the model."""
    epoch: Annotated[int, Field(ge=0)]
    """Number of the gate's last change. Gateways report the number that they have applied."""
    hold_seconds: Annotated[int, Field(ge=1)]
    """Maximum time, in seconds, for which a request is held before it receives 503."""
    adapters: Annotated[list[str], Field(max_length=64)] | None = None
    """LoRA adapters of the model that accept requests: the adapters of the spec without rejected ones."""
    reason: Annotated[str, Field(max_length=1024)] | None = None
    """Cause of rejected requests, for clients."""
    phase: Phase
    """Summary phase of the model's sleep, for display."""
    phase_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time at which the phase began."""
    sleep_depth: SleepDepth | None = None
    """Depth of the current sleep. Absent if no resources of the model are released."""
    kept_awake: KeptAwake | None = None
    """Reason for which the awake model does not yield its accelerators. Absent if there is none."""
    queued_behind: Annotated[list[str], Field(max_length=MAX_AFTER)] | None = None
    """Services, as `namespace/name`, that are ahead of this model in the accelerator queue. Set while the
    model wakes, or sleeps with held requests. The model creates no pods until these services are scheduled.
    Lists the first 8 services."""
    yielded_to: Annotated[str, Field(max_length=317)] | None = None
    """Workload, as `namespace/name`, to which the model yields: it drains, or was put to sleep, for that
    workload. Absent if the model does not sleep, or sleeps after its own idle time or by a forced state."""
    accelerator_queue: RoomStatus | None = None
    """Position in the accelerator queue, and previous waits. Absent if the model has never waited."""
    wake: WakeStatus | None = None
    """Durations and steps of wakes from sleep."""
    idle: IdleStatus | None = None
    """Pauses between the model's requests, and the idle time recommended from these pauses and from its
    wakes."""


class GateBackend(ApiModel):
    """Pods that receive requests: those of a Ray cluster, or of a ModelServer."""

    cluster: Annotated[str, Field(max_length=253)]
    """Name of the RayCluster, or value of the label `app.kubernetes.io/instance` on the pods of a
    ModelServer."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port on which the pods accept requests. Defaults to the port of Ray pods."""
    health_path: Annotated[str, Field(max_length=256)] | None = None
    """Path on which healthy pods answer with 200. Defaults to the path of Ray pods."""
    configuration_hash: Annotated[str, Field(max_length=63)] | None = None
    """Value of the label `daybreak.dev/configuration-hash` on the pods. If absent, any value matches."""
    models: Annotated[list[str], Field(max_length=MAX_GATES)] | None = None
    """Models that the pods serve. Defaults to all models."""
    weight: Annotated[int, Field(ge=0, le=100)] = 100
    """Share of requests, relative to other backends of the same model. At 0, the backend receives no
    requests. Defaults to 100."""


class GateStatus(ApiModel):
    """Instructions for the gateway about requests to the service. The gateway reads them here."""

    port: Annotated[int, Field(ge=1, le=65535)]
    """Port of the gateway for this service. The Kubernetes Service for clients forwards to it."""
    protocol: Protocol | None = None
    """Protocol of requests on the port. Defaults to the OpenAI API."""
    backends: Annotated[list[GateBackend], Field(max_length=8)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["cluster"]},
    )
    """Backends that receive requests. Empty if there are none."""
    models: Annotated[list[ModelGate], Field(max_length=MAX_GATES)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """Gates of all models that accept requests. These are the models of the spec and, while a change of the
    models is in progress in an awake service, the previous models."""
