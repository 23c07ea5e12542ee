"""An operator that is killed around each write of a ServeApplication: the next one ends at the same place."""

import pytest

from tests.api.admin import Admin
from tests.api.objects.applications import PIPELINE, write_code
from tests.api.restarts import MOMENTS, Start, killed_around_each_write


@pytest.mark.parametrize("moment", MOMENTS)
def test_objects_are_complete_after_operator_is_killed_at_each_write(
    moment: str, admin: Admin, alone: Start
) -> None:
    write_code(admin, "first")
    admin.create(PIPELINE.manifest())
    killed_around_each_write(
        moment,
        alone,
        len(PIPELINE.objects) + 1,  # its revision
        done=lambda: PIPELINE.everything(admin) and PIPELINE.status(admin).get("conditions"),
        reported=lambda: PIPELINE.status(admin).get("conditions"),
        kept=lambda: {kind: each.get("spec") for kind, each in (PIPELINE.everything(admin) or {}).items()},
    )
