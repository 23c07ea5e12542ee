"""An operator that is killed around each write for a job: the next operator reaches the same result."""

import pytest

from tests.api.admin import Admin
from tests.api.objects.batches import NIGHT
from tests.api.objects.benchmarks import TUNE
from tests.api.owners import Subject
from tests.api.restarts import MOMENTS, Start, killed_around_each_write


@pytest.mark.parametrize("subject", [NIGHT, TUNE], ids=lambda each: each.kind)
@pytest.mark.parametrize("moment", MOMENTS)
def test_objects_are_complete_after_operator_is_killed_at_each_write(
    moment: str, subject: Subject, admin: Admin, alone: Start
) -> None:
    admin.create(subject.manifest())
    killed_around_each_write(
        moment,
        alone,
        len(subject.objects),
        done=lambda: subject.everything(admin) and subject.status(admin).get("startTime"),
        reported=lambda: subject.status(admin).get("jobHash"),
        kept=lambda: subject.everything(admin),
    )
