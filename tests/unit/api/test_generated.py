"""Generated files: up to date, and with a description of every field."""

import re
from pathlib import Path

import pytest

from daybreak import versions
from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.gates.gate_status import Phase
from daybreak.api.llmservice.status import ModelState
from scripts.docs import docstrings
from scripts.docs.llmservice_api import api_md
from scripts.docs.versions import versions_md
from scripts.generate import FILES, RENDERED_BY_HELM, content

ROOT = Path(__file__).parents[3]
OURS = sorted(set(FILES) - set(RENDERED_BY_HELM))


@pytest.mark.parametrize("name", OURS)
def test_a_generated_file_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text() == content(name), "run `make generate`"


def test_every_link_of_api_page_has_matching_heading() -> None:
    page = api_md()
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", page, re.MULTILINE)}
    links = set(re.findall(r"\]\(#(\w+)\)", page))
    assert links
    assert links <= headings


def test_every_api_field_has_description() -> None:
    rows = [line for line in api_md().splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    for row in rows:
        assert re.fullmatch(r"\|.*\| \S.* \|", row), row


@pytest.mark.parametrize("words", [ConditionType, ModelState, Phase, Reason])
def test_every_status_value_has_description(words: type) -> None:
    assert all(docstrings.of_members(words).values())


def test_every_version_is_on_versions_page() -> None:
    page = versions_md()
    for name in docstrings.of_constants(versions):
        assert f"| {getattr(versions, name)} |" in page
