"""Choice of the LoRA adapter that answers a row."""

from typing import Any

import pytest

from daybreak_runtime.batch.engines import prepare_rows
from daybreak_runtime.batch.order import Request
from daybreak_runtime.batch.rows.prepare import prepared
from tests.unit.runtime.batch.test_requests import FakeTokenizer

ADAPTERS = {"poet", "clerk"}


def test_row_uses_the_adapter_of_the_batch() -> None:
    assert prepared(Request(prompt="a", adapter="poet"), FakeTokenizer(), {}, ADAPTERS)["model"] == "poet"
    assert "model" not in prepared(Request(prompt="a"), FakeTokenizer(), {}, ADAPTERS)


@pytest.mark.parametrize(
    ("own", "named", "answers"),
    [
        (None, "poet", "poet"),
        (None, "gpt-4o-mini", None),
        ("clerk", "gpt-4o-mini", "clerk"),
        ("clerk", "poet", "poet"),
        ("clerk", 7, "clerk"),
    ],
)
def test_batch_file_row_uses_named_adapter_unless_missing(
    own: str | None, named: Any, answers: str | None
) -> None:
    """A batch file mostly names another provider's model: then the batch's adapter answers."""
    row = {"custom_id": "c", "url": "/v1/completions", "body": {"prompt": "a", "model": named}}
    assert prepared(Request(adapter=own), FakeTokenizer(), row, ADAPTERS).get("model") == answers


def test_prepare_rows_keeps_name_of_existing_adapter() -> None:
    row = '{"custom_id": "c", "url": "/v1/completions", "body": {"prompt": "a", "model": "poet"}}'
    [found] = prepare_rows(Request(), FakeTokenizer(), [(0, row)], ADAPTERS)
    assert '"model": "poet"' in found["request"]
