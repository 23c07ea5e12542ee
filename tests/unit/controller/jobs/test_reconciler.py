"""One reconcile of a test-only kind with one job, with fake surroundings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, cast

import pytest
from pydantic import BaseModel

from daybreak.api.common import names
from daybreak.api.common.conditions import Condition
from daybreak.api.common.unstructured import Manifest
from daybreak.api.jobs.words import JobPhase, JobReason
from daybreak.api.schema.custom_object import known_status
from daybreak.api.schema.resource import API_VERSION, GROUP, VERSION, Resource
from daybreak.controller.again import FOREIGN_SECONDS, REFUSED_SECONDS, SOON_SECONDS, Again
from daybreak.controller.jobs.reconciler import Reconciler
from daybreak.controller.jobs.reports import Job, JobProber
from daybreak.jobs import status, verdict
from daybreak.jobs.decision import Decision
from daybreak.jobs.observed import JobWords, ObservedJob
from daybreak.jobs.verdict import Verdict
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier
from daybreak.manifests.keys import Key
from daybreak.manifests.owner import NameHolder
from daybreak.manifests.resources import JOBS
from daybreak.problems.events import Event

TRIALS = Resource(GROUP, VERSION, "Trial", "trials")
KEY = Key("team", "one")
METADATA = {"name": "one", "namespace": "team", "uid": "u-1", "generation": 2, "resourceVersion": "1"}
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TestJob = ObservedJob[str, JobWords]


class TrialStatus(BaseModel):
    """Minimal status of such a kind."""

    observed_generation: int = 0
    phase: str | None = None
    start_time: str | None = None
    completion_time: str | None = None
    accelerators: int = 0
    accelerator_seconds: float = 0.0
    accelerator_seconds_time: str | None = None
    job_hash: str | None = None
    conditions: list[Condition] = []


@dataclass
class TrialKind:
    """Kind-specific part of the reconciler."""

    resource = TRIALS
    owned: Collection[Resource] = (JOBS,)
    job = JOBS
    role: str | None = None

    def decide(self, observed: TestJob) -> Decision:
        begun = observed.begun_with("trial")
        if (settled := Decision.settled(observed, begun)) is not None:
            return settled
        how = (
            self._ended(observed)
            or verdict.not_applied(observed, "trial")
            or verdict.being_made(observed, "Job")
            or verdict.pod_failed(observed)
            or Verdict(JobPhase.RUNNING, JobReason.RUNNING, "it runs")
        )
        return Decision.going_on(
            observed,
            how,
            begun=begun,
            digest=str(observed.subject),
            suspended=False,
            waits=False,
            noun="trial",
            restart="a new",
        )

    def _ended(self, observed: TestJob) -> Verdict | None:
        if observed.progress is None or not observed.progress.final:
            return None
        return Verdict(JobPhase.SUCCEEDED, JobReason.FINISHED, "done")

    def desired(self, observed: TestJob, decision: Decision) -> Sequence[dict[str, Any]]:
        return [desired_state("one-job")]

    def keeps(self, observed: TestJob, decision: Decision) -> dict[str, Any] | None:
        content = observed.progress.message if observed.progress is not None else ""
        return desired_state("one-report") if content else None

    def known(self, observed: TestJob) -> Collection[Resource]:
        return self.owned

    def stays(self, desired: Manifest, live: Manifest, whose: NameHolder) -> bool:
        return whose is NameHolder.OURS

    def report(self, observed: TestJob, decision: Decision) -> TrialStatus:
        before = known_status(TrialStatus, observed.status)
        update = status.update(observed, before, decision, held=0)
        if decision.verdict is not None:
            update["phase"] = str(decision.verdict.phase)
        return before.model_copy(update=update)

    def news(self, before: Mapping[str, Any], after: TrialStatus) -> Sequence[Event]:
        return ()

    def written(self, key: Key, observed: TestJob, after: TrialStatus) -> None:
        """Count nothing."""

    def look_again(self, observed: TestJob, decision: Decision, again: Again) -> None:
        """Add no reason for another reconcile."""


def desired_state(name: str, **metadata: Any) -> dict[str, Any]:
    """Return a Job."""
    own = {"name": name, "namespace": "team", "labels": names.labels("one", "trial"), **metadata}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": own, "spec": {}}


class Around:
    """Fake surroundings of a reconciler, which record its actions."""

    def __init__(self, **observed: Any) -> None:
        self.did: list[str] = []
        self.live_objects: dict[str, dict[str, Any]] = {}
        self.refuses = False
        self.observed: TestJob | None = ObservedJob(
            {
                "metadata": {
                    "name": "one",
                    "namespace": "team",
                    "uid": "u-1",
                    "generation": 2,
                    "resourceVersion": "1",
                }
            },
            "spec",
            (),
            NOW,
        )
        self.observed = replace(self.observed, **observed)
        self.cache = Cache()

    def observe(self, key: Key) -> TestJob | None:
        return self.observed

    def again(self, key: Key, observed: TestJob) -> TestJob:
        return observed

    def received(self, key: Key, observed: TestJob) -> TestJob:
        # The job's progress comes from the test, since no pod is queried.
        return replace(observed, progress=self.observed.progress if self.observed is not None else None)

    async def live(self, manifest: Manifest) -> dict[str, Any] | None:
        return self.live_objects.get(manifest["metadata"]["name"])

    async def apply(self, manifest: Manifest, live: Manifest | None) -> bool:
        if self.refuses:
            raise ApiError(403, "Forbidden", "quota")
        self.did.append(f"apply {manifest['metadata']['name']}")
        return True

    async def delete(self, live: Manifest) -> None:
        self.did.append(f"delete {live['metadata']['name']}")

    def forget(self, key: Key) -> None:
        self.did.append(f"forget {key.name}")

    async def request(self, verb: str, resource: Resource, path: str, **options: Any) -> Mapping[str, Any]:
        body = options["body"]
        self.did.append(f"status {body['status']['phase']}")
        return dict(body)

    async def report(self, requested: Job) -> JobWords | None:
        return None

    async def close(self) -> None:
        """Do nothing: the fake has no connection."""


async def reconciled(around: Around) -> float | None:
    """Reconcile once."""
    reconciler = Reconciler(
        TrialKind(),
        around,
        cast(Api, around),
        around.cache,
        JobProber(around, lambda _: None),
        cast(Applier, around),
        lambda: True,
    )
    around.cache.put(
        TRIALS, around.observed.manifest if around.observed is not None else {"metadata": {"name": "x"}}
    )
    return await reconciler.reconcile(KEY)


async def test_objects_are_applied_before_status_is_written() -> None:
    around = Around()
    assert await reconciled(around) is None
    assert around.did == ["apply one-job", "status Pending"]


async def test_deleted_object_is_forgotten() -> None:
    around = Around()
    around.observed = None
    assert await reconciled(around) is None
    assert around.did == ["forget one"]


async def test_reconcile_is_repeated_if_object_name_is_taken() -> None:
    around = Around()
    around.live_objects["one-job"] = desired_state("one-job", labels={})
    assert await reconciled(around) == FOREIGN_SECONDS
    assert around.did == ["status Pending"]


async def test_reconcile_is_repeated_soon_while_old_object_is_deleted() -> None:
    around = Around()
    around.live_objects["one-job"] = desired_state("one-job", deletionTimestamp="2026-01-01T00:00:00Z")
    assert await reconciled(around) == SOON_SECONDS
    assert around.did == ["status Pending"]


async def test_rejected_object_is_retried_later() -> None:
    around = Around()
    around.refuses = True
    assert await reconciled(around) == REFUSED_SECONDS
    assert around.did == ["status Pending"]


async def test_surplus_object_is_deleted_before_objects_are_applied() -> None:
    around = Around()
    owner = {"apiVersion": API_VERSION, "kind": "Trial", "name": "one", "uid": "u-1", "controller": True}
    around.cache.put(JOBS, desired_state("old-job", ownerReferences=[owner]))
    await reconciled(around)
    assert around.did == ["delete old-job", "apply one-job", "status Pending"]


async def test_reconcile_is_repeated_at_once_after_end_is_written() -> None:
    around = Around(progress=JobWords("Succeeded", final=True), job=desired_state("one-job"))
    assert await reconciled(around) == 0.0
    assert around.did == ["status Succeeded"], "nothing is applied any more"


async def test_report_is_applied_before_end_is_written_to_status() -> None:
    around = Around(progress=JobWords("Succeeded", final=True, message="x"), job=desired_state("one-job"))
    assert await reconciled(around) == 0.0
    assert around.did == ["apply one-report", "status Succeeded"]


async def test_end_is_written_even_if_report_cannot_be_applied() -> None:
    around = Around(progress=JobWords("Succeeded", final=True, message="x"), job=desired_state("one-job"))
    around.refuses = True
    assert await reconciled(around) == 0.0
    around.live_objects["one-report"] = desired_state("one-report", labels={})
    around.refuses = False
    assert await reconciled(around) == 0.0
    assert around.did == ["status Succeeded", "status Succeeded"]


async def test_unchanged_status_is_not_written() -> None:
    around = Around(job=desired_state("one-job"))
    observed = around.observed
    assert observed is not None
    kind = TrialKind()
    plain = kind.report(observed, kind.decide(observed)).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    around.observed = replace(observed, manifest={**observed.manifest, "status": plain})
    assert await reconciled(around) is None
    assert around.did == ["apply one-job"]


class Odd(StrEnum):
    OWN = "Own"


@pytest.mark.parametrize(("message", "reason"), [("Own", Odd.OWN), ("Other", JobReason.JOB_FAILED)])
def test_reason_unknown_to_kind_becomes_job_failed(message: str, reason: StrEnum) -> None:
    found = verdict.failed(JobWords("Failed", final=True, reason=message), Odd)
    assert (found.phase, found.reason, found.stalled) == (JobPhase.FAILED, reason, True)
    assert found.message == "the job reported no reason"
