"""A status that another version or a person wrote: its readable parts are kept."""

from typing import Any

import pytest

from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.api.schema.lenient import readable

MODEL = {"name": "tiny", "state": "Ready", "replicas": 1, "accelerators": 0}


def test_readable_fields_are_kept_and_others_dropped() -> None:
    found = readable(
        LLMServiceStatus, {"url": "http://chat", "replicas": "many", "later": 1, "accelerators": 2}
    )
    assert found == {"url": "http://chat", "accelerators": 2}


def test_unreadable_items_of_a_list_are_dropped() -> None:
    found = readable(LLMServiceStatus, {"models": [MODEL, {"name": "other", "state": "Upside"}, 7]})
    assert [model.name for model in found["models"]] == ["tiny"]


@pytest.mark.parametrize("found", [None, [], "status", {"models": {"tiny": MODEL}}])
def test_status_of_wrong_type_is_dropped(found: Any) -> None:
    assert readable(LLMServiceStatus, found) == {}
