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


def test_every_link_of_the_api_page_leads_somewhere() -> None:
    page = api_md()
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", page, re.MULTILINE)}
    links = set(re.findall(r"\]\(#(\w+)\)", page))
    assert links
    assert links <= headings


def test_every_field_has_a_meaning() -> None:
    rows = [line for line in api_md().splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    for row in rows:
        assert re.fullmatch(r"\|.*\| \S.* \|", row), row


@pytest.mark.parametrize("words", [ConditionType, ModelState, Phase, Reason])
def test_every_word_of_the_status_has_a_meaning(words: type) -> None:
    assert all(docstrings.of_members(words).values())


def test_every_version_is_on_its_page() -> None:
    page = versions_md()
    for name in docstrings.of_constants(versions):
        assert f"| {getattr(versions, name)} |" in page
