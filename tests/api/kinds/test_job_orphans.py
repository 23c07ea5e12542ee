"""Objects that `kubectl delete --cascade=orphan` leaves of a job's owner, and the next owner of its name."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.admin import Admin, eventually
from tests.api.objects.jobs import BATCHES, BENCHMARKS, JobKind
from tests.api.operator_process import OperatorProcess


@pytest.mark.parametrize("kind", [BATCHES, BENCHMARKS], ids=lambda kind: kind.subject.kind)
def test_orphaned_job_is_replaced_by_job_of_new_owner(
    admin: Admin, operator: OperatorProcess, kind: JobKind
) -> None:
    subject = kind.subject
    admin.create(subject.manifest())
    eventually("its objects", lambda: subject.everything(admin))
    eventually("the digest of what it began with", lambda: subject.status(admin).get("jobHash"))
    admin.delete(subject.kind, subject.name, policy="Orphan")
    eventually("no object", lambda: admin.get(subject.kind, subject.name) is None)
    assert admin.get(kind.job, subject.objects[kind.job])
    made = admin.create(subject.manifest())
    eventually("a job that speaks for it", _read_report(admin, kind, made))
    assert subject.everything(admin)
    assert subject.condition(admin, "Failed").get("status") != "True"


def _read_report(admin: Admin, kind: JobKind, made: dict[str, Any]) -> Callable[[], bool]:
    def found() -> bool:
        live = admin.get(kind.job, kind.subject.objects[kind.job])
        if live is None or live["metadata"].get("deletionTimestamp"):
            return False
        owners = {each["uid"] for each in live["metadata"].get("ownerReferences", ())}
        return owners == {made["metadata"]["uid"]} and made["metadata"]["uid"] in kind.reported(admin)

    return found
