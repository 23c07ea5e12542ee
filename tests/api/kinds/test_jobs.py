"""Properties of every kind that becomes one job, on the real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.admin import Admin, eventually
from tests.api.objects.jobs import BATCHES, BENCHMARKS, JobKind
from tests.api.operator_process import OperatorProcess


@pytest.fixture(params=[BATCHES, BENCHMARKS], ids=lambda kind: kind.subject.kind)
def kind(request: pytest.FixtureRequest) -> JobKind:
    """Return each kind with one job."""
    found: JobKind = request.param
    return found


@pytest.fixture
def made(admin: Admin, operator: OperatorProcess, kind: JobKind) -> Iterator[Any]:
    """Yield an object with all its owned objects."""
    with kind.subject.made(admin) as made:
        yield made


def job_of(admin: Admin, kind: JobKind) -> Any:
    """Return the object's job."""
    return admin.get(kind.job, kind.subject.objects[kind.job])


def test_created_objects_are_owned_by_created_resource(admin: Admin, kind: JobKind, made: Any) -> None:
    found = kind.subject.everything(admin)
    assert found
    for each in found.values():
        [owner] = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == (kind.subject.kind, made["metadata"]["uid"])
    assert made["metadata"]["uid"] in kind.reported(admin)
    eventually("the digest of what it began with", lambda: kind.subject.status(admin).get("jobHash"))


def test_deleted_objects_are_recreated(admin: Admin, kind: JobKind, made: Any) -> None:
    objects = kind.subject.objects
    before = job_of(admin, kind)["metadata"]["uid"]
    admin.delete("NetworkPolicy", objects["NetworkPolicy"])
    admin.delete(kind.job, objects[kind.job])
    eventually("its NetworkPolicy", lambda: admin.get("NetworkPolicy", objects["NetworkPolicy"]))
    eventually("another job", lambda: (found := job_of(admin, kind)) and found["metadata"]["uid"] != before)


def test_suspension_deletes_job_and_resume_creates_new_job(admin: Admin, kind: JobKind, made: Any) -> None:
    subject = kind.subject
    before = job_of(admin, kind)["metadata"]["uid"]
    admin.merge(subject.kind, subject.name, {"spec": {"suspend": True}})
    eventually("no job", lambda: job_of(admin, kind) is None)
    subject.phase(admin, "Suspended")
    admin.merge(subject.kind, subject.name, {"spec": {"suspend": False}})
    again = eventually("a job", lambda: job_of(admin, kind))
    assert again["metadata"]["uid"] != before


def test_spec_change_after_start_is_reported_and_ignored(admin: Admin, kind: JobKind, made: Any) -> None:
    subject, before = kind.subject, kind.reported(admin)
    eventually("the digest of what it began with", lambda: subject.status(admin).get("jobHash"))
    admin.merge(subject.kind, subject.name, {"spec": dict(kind.change)})
    assert f"create a new {subject.kind}" in subject.stalled(admin, "SpecChanged")
    assert kind.reported(admin) == before
    admin.merge(subject.kind, subject.name, {"spec": {name: subject.spec[name] for name in kind.change}})
    eventually("all well", lambda: subject.condition(admin, "Stalled").get("status") == "False")


def test_existing_unmanaged_job_is_not_adopted(
    admin: Admin, operator: OperatorProcess, kind: JobKind
) -> None:
    subject, name = kind.subject, kind.subject.objects[kind.job]
    theirs = admin.create({**kind.theirs, "kind": kind.job, "metadata": {"name": name}})
    admin.create(subject.manifest())
    assert f"{kind.job}/{name}" in subject.stalled(admin, "NameConflict")
    assert job_of(admin, kind)["metadata"]["uid"] == theirs["metadata"]["uid"]
    admin.delete(kind.job, name)
    eventually("its own", lambda: subject.everything(admin))


def test_failure_reported_by_job_sets_failed_condition(admin: Admin, kind: JobKind, made: Any) -> None:
    with kind.speaks(admin, made["metadata"]["uid"]) as job:
        assert job.end(kind.broken, "it says why"), "the job ends when its last word stands in the status"
        kind.subject.phase(admin, "Failed")
    assert "it says why" in kind.subject.stalled(admin, kind.broken)
    assert kind.subject.condition(admin, "Failed")["status"] == "True"


def test_owner_deletion_removes_all_objects(admin: Admin, kind: JobKind, made: Any) -> None:
    admin.delete(kind.subject.kind, kind.subject.name)
    eventually("all gone", lambda: kind.subject.gone(admin))
