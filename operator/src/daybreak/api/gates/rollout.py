"""How a change of a workload reaches what runs, and what the status says of it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.scalar_types import AutoOrDuration, PositiveDuration

_NAME_LIMIT = 253
_WORDS_LIMIT = 4096


class RolloutStrategy(StrEnum):
    """How a change that restarts replicas is rolled out."""

    AUTO = "Auto"
    """`InPlace` where it can be, `BlueGreen` where room is free now for all of it, else `Replace`."""
    IN_PLACE = "InPlace"
    """Ray Serve replaces the replicas, in the same pods."""
    BLUE_GREEN = "BlueGreen"
    """A second Ray cluster beside the first, which takes over when it answers."""
    REPLACE = "Replace"
    """Requests are held, those that run end, the Ray cluster goes, and another one comes."""


class OnFailure(StrEnum):
    """What comes of a change that cannot start."""

    ROLL_BACK = "RollBack"
    """What answered last comes back."""
    PAUSE = "Pause"
    """It stays, and is told."""


class Rollout(ApiModel):
    """How changes reach running pods. Numbers of replicas, limits of requests, `sleep` and `hold` are always
    changed in place, and nothing is restarted."""

    strategy: RolloutStrategy = RolloutStrategy.AUTO
    """`InPlace`: Ray Serve replaces the replicas in their pods; refused where the change needs new pods.
    `BlueGreen`: a second Ray cluster, to which requests move when it answers; needs the accelerators twice.
    `Replace`: requests are held, those in progress end, then the pods are replaced; needs no spare
    accelerator. `Auto`: `InPlace` where it can be, `BlueGreen` where room is free now for all of it, else
    `Replace`."""
    on_failure: OnFailure = OnFailure.ROLL_BACK
    """What comes of a change that cannot start: `RollBack` to the last revision that answered, or `Pause`."""
    deadline: AutoOrDuration = "Auto"
    """How long a change may take from its first pod to its first answer; what takes longer has failed.
    `Auto`: three times what nearly every start took, between 15 minutes and 2 hours; 30 minutes without
    one."""
    drain_timeout: PositiveDuration = "1h"
    """How long the first Ray cluster lives on at most after traffic has moved to a second one: requests that
    it had begun go on there, and are cut when the time is up. It goes as soon as gateways count none, and
    with it its accelerators. It holds for the next change: KubeRay reads it when traffic moves."""
    paused: bool = False
    """Begins no change of what runs. The annotation `daybreak.dev/rollout-paused` does the same."""
    revision: Annotated[int, Field(ge=1)] | None = None
    """Number of an earlier revision that is run instead of what the spec says of models, code and pods. The
    annotation `daybreak.dev/rollout-revision` does the same and takes precedence. Unset: what the spec
    says."""
    revision_history_limit: Annotated[int, Field(ge=1, le=100)] = 10
    """How many revisions are kept that are not in use."""


class RolloutPhase(StrEnum):
    """How far a change is."""

    PROGRESSING = "Progressing"
    """On its way."""
    PREPARING = "Preparing"
    """Weights are being copied for it, before what runs is disturbed."""
    COMPLETE = "Complete"
    """What is asked for runs, and has answered."""
    BLOCKED = "Blocked"
    """It is not begun: the strategy cannot make it, or it fits nowhere. What ran before goes on."""
    PAUSED = "Paused"
    """It is not begun, since a person has paused it. What ran before goes on."""
    ROLLING_BACK = "RollingBack"
    """It could not start; what answered last is on its way back."""
    ROLLED_BACK = "RolledBack"
    """It could not start; what answered before runs again."""
    FAILED = "Failed"
    """It could not start, and stays."""


class RolloutStatus(ApiModel):
    """The last change of what runs, and the revision that runs. A revision is a ControllerRevision with what
    the spec said of models, code and pods."""

    phase: RolloutPhase
    """How far it is."""
    strategy: RolloutStrategy | None = None
    """How it is, or was, rolled out; of one that waits in `Paused` or `Preparing`, how it would be at this
    moment. Absent: nothing ran that it could disturb, or it is blocked."""
    reason: Annotated[str, Field(max_length=_WORDS_LIMIT)] | None = None
    """Why so."""
    current_revision_number: Annotated[int, Field(ge=0)] = 0
    """Number of the revision that the Ray cluster is made of."""
    current_revision: Annotated[str, Field(max_length=_NAME_LIMIT)]
    """Its name."""
    target_revision: Annotated[str, Field(max_length=_NAME_LIMIT)] | None = None
    """Name of the revision that waits to take its place; absent: none."""
    last_successful_revision: Annotated[str, Field(max_length=_NAME_LIMIT)] | None = None
    """Name of the revision that answered last; absent: none has."""
    failed_revision: Annotated[str, Field(max_length=_NAME_LIMIT)] | None = None
    """Name of the revision that could not start. It is not tried again until it is changed."""
    message: Annotated[str, Field(max_length=_WORDS_LIMIT)] | None = None
    """What it waits for, or why it failed."""
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When its pods, or its replicas, were asked for."""
    deadline_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When it has failed unless it has answered; absent: nothing is on its way, or it sleeps."""
