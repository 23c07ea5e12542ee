"""Assembly of the operator from its parts."""

from typing import Any, cast

import pytest

from daybreak.api.modelserver.profiles import Engines
from daybreak.assembly import assemble
from daybreak.controller.asking.model_client import ModelClient
from daybreak.controller.asking.other_pods import OtherPods
from daybreak.controller.watching.booked_watch import BookedWatch
from daybreak.kube.client import Api
from daybreak.kube.lease import Lease
from tests.unit.llmservice.decide.scenes.services import PLATFORM


@pytest.mark.parametrize("part", [OtherPods, BookedWatch])
async def test_node_usage_reader_is_created_once_for_all_kinds(
    part: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    monkeypatch.setattr(part, "__init__", lambda self, *_: made.append(self))
    nobody: Any = None
    assemble(
        cast(Api, nobody),
        PLATFORM,
        cast(Lease, nobody),
        cast(ModelClient, nobody),
        engines=Engines({}),
        namespaces=(),
        nodes=False,
        on_end=lambda: None,
    )
    assert len(made) == 1
