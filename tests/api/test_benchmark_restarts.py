"""An operator that is killed around each write of a benchmark: whoever comes next ends at the same place."""

import pytest

from tests.api.admin import Admin
from tests.api.benchmarks import OBJECTS, everything, status, tune
from tests.api.restarts import MOMENTS, Start, killed_around_each_write


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_around_each_write(moment: str, admin: Admin, alone: Start) -> None:
    admin.create(tune())
    killed_around_each_write(
        moment,
        alone,
        len(OBJECTS),
        done=lambda: everything(admin) and status(admin).get("started"),
        told=lambda: status(admin).get("job"),
        kept=lambda: everything(admin),
    )
