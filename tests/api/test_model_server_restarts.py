"""An operator that is killed around each write of a ModelServer: the next one ends at the same place."""

import pytest

from tests.api.admin import Admin
from tests.api.restarts import MOMENTS, Start, killed_around_each_write
from tests.api.servers import OBJECTS, chat, everything, status


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_around_each_write(moment: str, admin: Admin, alone: Start) -> None:
    admin.create(chat())
    killed_around_each_write(
        moment,
        alone,
        len(OBJECTS),
        done=lambda: everything(admin) and status(admin).get("conditions"),
        told=lambda: status(admin).get("conditions"),
        kept=lambda: {kind: each.get("spec") for kind, each in (everything(admin) or {}).items()},
    )
