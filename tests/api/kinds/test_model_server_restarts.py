"""An operator that is killed around each write of a ModelServer: the next one ends at the same place."""

import pytest

from tests.api.admin import Admin
from tests.api.objects.servers import CHAT
from tests.api.restarts import MOMENTS, Start, killed_around_each_write


@pytest.mark.parametrize("moment", MOMENTS)
def test_objects_are_complete_after_operator_is_killed_at_each_write(
    moment: str, admin: Admin, alone: Start
) -> None:
    admin.create(CHAT.manifest())
    killed_around_each_write(
        moment,
        alone,
        len(CHAT.objects),
        done=lambda: CHAT.everything(admin) and CHAT.status(admin).get("conditions"),
        reported=lambda: CHAT.status(admin).get("conditions"),
        kept=lambda: {kind: each.get("spec") for kind, each in (CHAT.everything(admin) or {}).items()},
    )
