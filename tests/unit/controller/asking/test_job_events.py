"""Rejected pods of Jobs: events are read while a Job has no pods, and only then."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from daybreak.controller.asking import job_events as module
from daybreak.controller.asking.job_events import JobEvents, WaitingJob, waiting
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.manifests.keys import Key

KEY = Key("team", "chat")
JOB = WaitingJob("team", "fill", "uid-1")
QUOTA = 'pods "fill-aaaaa" is forbidden: failed quota: team: must specify limits.cpu for: fill'


class FakeApi:
    """Returns events of Jobs."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.error: ApiError | None = None

    async def request(self, verb: str, resource: Any, path: str, *, query: dict[str, str]) -> dict[str, Any]:
        """Return the events."""
        assert (verb, resource.plural) == ("list", "events")
        self.queries.append(query)
        if self.error is not None:
            raise self.error
        return {"items": self.events}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read at once, and again soon."""
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.001)


@pytest.fixture
def api() -> FakeApi:
    """Return the API server."""
    return FakeApi()


@pytest.fixture
def changed() -> list[Key]:
    """Return the objects that were reported as changed."""
    return []


@pytest.fixture
async def events(api: FakeApi, changed: list[Key]) -> AsyncIterator[JobEvents]:
    """Yield the reader of events."""
    found = JobEvents(cast(Api, api), changed.append)
    yield found
    await found.close()


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def event(note: str, **times: Any) -> dict[str, Any]:
    """Return an event."""
    return {"note": note, "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, **times}


async def test_rejection_is_reported_once(api: FakeApi, events: JobEvents, changed: list[Key]) -> None:
    api.events = [event(QUOTA)]
    assert events.rejections(KEY, [JOB]) == {}
    await until(lambda: changed)
    assert events.rejections(KEY, [JOB]) == {"fill": QUOTA}
    count = len(api.queries)
    await until(lambda: len(api.queries) > count + 2)
    assert changed == [KEY]
    assert "regarding.uid=uid-1" in api.queries[0]["fieldSelector"]
    assert "reason=FailedCreate" in api.queries[0]["fieldSelector"]


async def test_newest_event_is_reported(api: FakeApi, events: JobEvents, changed: list[Key]) -> None:
    api.events = [
        event("newest", series={"lastObservedTime": "2026-01-03T00:00:00.000000Z"}),
        event("older", deprecatedLastTimestamp="2026-01-02T00:00:00Z"),
        event("oldest"),
    ]
    events.rejections(KEY, [JOB])
    await until(lambda: changed)
    assert events.rejections(KEY, [JOB]) == {"fill": "newest"}


async def test_changed_rejection_message_is_reported(
    api: FakeApi, events: JobEvents, changed: list[Key]
) -> None:
    api.events = [event("first")]
    events.rejections(KEY, [JOB])
    await until(lambda: changed)
    api.events = [event("second")]
    await until(lambda: len(changed) == 2)
    assert events.rejections(KEY, [JOB]) == {"fill": "second"}


async def test_events_are_read_of_waiting_jobs_only(api: FakeApi, events: JobEvents) -> None:
    events.rejections(KEY, [JOB])
    await until(lambda: api.queries)
    assert events.rejections(KEY, []) == {}
    await asyncio.sleep(0)
    count = len(api.queries)
    await asyncio.sleep(0.02)
    assert len(api.queries) == count


@pytest.mark.parametrize("status", [403, 500])
async def test_unreadable_events_report_nothing(
    api: FakeApi, events: JobEvents, changed: list[Key], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FORBIDDEN_SECONDS", 0.001)
    api.error = ApiError(status, "", "no")
    events.rejections(KEY, [JOB])
    await until(lambda: len(api.queries) > 2)
    assert not changed
    api.error, api.events = None, [event(QUOTA)]
    await until(lambda: changed)


def job(**status: Any) -> dict[str, Any]:
    """Return a Job."""
    metadata = {"name": "fill", "namespace": "team", "uid": "uid-1"}
    return {"metadata": metadata, "spec": {}, "status": status}


def pod(owner: str) -> dict[str, Any]:
    """Return a pod of a Job."""
    return {"metadata": {"labels": {"batch.kubernetes.io/job-name": owner}}}


def test_job_without_pods_waits() -> None:
    assert waiting([job()], [pod("other")]) == (JOB,)


@pytest.mark.parametrize(
    ("manifest", "pods"),
    [
        (job(), [pod("fill")]),
        (job(active=1), []),
        (job(conditions=[{"type": "Complete", "status": "True"}]), []),
        (job(conditions=[{"type": "Failed", "status": "True"}]), []),
        ({**job(), "spec": {"suspend": True}}, []),
        ({**job(), "metadata": {**job()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}, []),
    ],
)
def test_job_that_has_pods_or_is_ended_or_suspended_does_not_wait(
    manifest: dict[str, Any], pods: list[dict[str, Any]]
) -> None:
    assert waiting([manifest], pods) == ()
