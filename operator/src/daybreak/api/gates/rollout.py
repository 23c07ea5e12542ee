"""Rollouts of changes to running workloads, and their status."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.scalar_types import AutoOrDuration, PositiveDuration

_NAME_LIMIT = 253
_WORDS_LIMIT = 4096


class RolloutStrategy(StrEnum):
    """Strategy for a change that restarts replicas."""

    AUTO = "Auto"
    """`InPlace` if possible; `BlueGreen` if there is free capacity for all new pods now; otherwise
    `Replace`."""
    IN_PLACE = "InPlace"
    """Ray Serve replaces the replicas in the same pods."""
    BLUE_GREEN = "BlueGreen"
    """A second Ray cluster runs alongside the first, and takes over when it answers."""
    REPLACE = "Replace"
    """Requests are held, requests in progress end, the Ray cluster is deleted, and a new one is created."""


class OnFailure(StrEnum):
    """Action for a change that cannot start."""

    ROLL_BACK = "RollBack"
    """The revision that answered last is restored."""
    PAUSE = "Pause"
    """The failed change stays, and the status reports it."""


class Rollout(ApiModel):
    """Rollout of changes to running pods.

    Replica numbers, request limits, `sleep` and `hold` always change in place without a restart.
    """

    strategy: RolloutStrategy = RolloutStrategy.AUTO
    """Strategy for changes that restart replicas. `InPlace`: Ray Serve replaces the replicas in their pods;
    rejected if the change needs new pods. `BlueGreen`: requests move to a second Ray cluster when it answers;
    needs the accelerators twice. `Replace`: requests are held, requests in progress end, then the pods are
    replaced; needs no spare accelerators. `Auto`: `InPlace` if possible; `BlueGreen` if there is free
    capacity for all new pods now; otherwise `Replace`. Defaults to `Auto`."""
    on_failure: OnFailure = OnFailure.ROLL_BACK
    """Action for a change that cannot start: `RollBack` to the last revision that answered, or `Pause`.
    Defaults to `RollBack`."""
    deadline: AutoOrDuration = "Auto"
    """Maximum time of a change from its first pod to its first answer; a change that takes longer fails.
    `Auto` is three times the 95th percentile of measured starts, between 15 minutes and 2 hours. Before the
    first measurement, it is 30 minutes. Defaults to `Auto`."""
    drain_timeout: PositiveDuration = "1h"
    """Maximum lifetime of the first Ray cluster after traffic has moved to a second one. Requests in progress
    continue on the first cluster, and are cut off when the time ends. The cluster and its accelerators are
    released as soon as gateways count no requests there. A changed value applies to the next rollout: KubeRay
    reads it when traffic moves. Defaults to 1h."""
    paused: bool = False
    """If true, rollouts pause: no change to running pods begins. The annotation `daybreak.dev/rollout-paused`
    has the same effect. Defaults to false."""
    revision: Annotated[int, Field(ge=1)] | None = None
    """Number of an earlier revision to run instead of the models, code and pods of the spec. The annotation
    `daybreak.dev/rollout-revision` has the same effect and takes precedence. Defaults to the revision of the
    spec."""
    revision_history_limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Maximum number of unused revisions to keep. Defaults to 10."""


class RolloutPhase(StrEnum):
    """Progress of a rollout."""

    PROGRESSING = "Progressing"
    """The change is in progress."""
    PREPARING = "Preparing"
    """Weights are being copied for the change, before running pods are affected."""
    COMPLETE = "Complete"
    """The requested revision runs and has answered."""
    BLOCKED = "Blocked"
    """The change has not begun: the strategy does not allow it, or its pods fit on no node. The previous
    revision continues to run."""
    PAUSED = "Paused"
    """The change has not begun, because a user has paused it. The previous revision continues to run."""
    ROLLING_BACK = "RollingBack"
    """The change could not start; the revision that answered last is being restored."""
    ROLLED_BACK = "RolledBack"
    """The change could not start; the revision that answered before runs again."""
    FAILED = "Failed"
    """The change could not start, and stays."""


class RolloutStatus(ApiModel):
    """Last change of the running pods, and the revision that runs.

    A revision is a ControllerRevision with the models, code and pods of a spec.
    """

    phase: RolloutPhase
    """Progress of the rollout."""
    strategy: RolloutStrategy | None = None
    """Strategy of the rollout. In the phases `Paused` and `Preparing`, the strategy that the operator would
    use now. Absent if no running pods could be affected, or if the rollout is blocked."""
    reason: Annotated[str, Field(max_length=_WORDS_LIMIT)] | None = None
    """Explanation of the strategy, or of its absence."""
    current_revision_number: Annotated[int, Field(ge=0)] = 0
    """Number of the revision from which the workload is built."""
    current_revision: Annotated[str, Field(max_length=_NAME_LIMIT)]
    """Name of the revision from which the workload is built."""
    target_revision: Annotated[str, Field(max_length=_NAME_LIMIT)] | None = None
    """Name of the revision that waits to replace the current one. Absent if there is none."""
    last_successful_revision: Annotated[str, Field(max_length=_NAME_LIMIT)] | None = None
    """Name of the revision that answered last. Absent if no revision has answered."""
    failed_revision: Annotated[str, Field(max_length=_NAME_LIMIT)] | None = None
    """Name of the revision that could not start. The operator does not retry it until another revision is
    requested."""
    message: Annotated[str, Field(max_length=_WORDS_LIMIT)] | None = None
    """Condition that the rollout waits for, or cause of its failure."""
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time at which the pods or replicas of the revision were requested."""
    deadline_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time at which the change fails unless it has answered. Absent if no change is in progress, or if the
    workload sleeps."""
