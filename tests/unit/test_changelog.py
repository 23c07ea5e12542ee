"""Changelog fragments: each is valid and appears in the next section."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster import paths

FOLDER = paths.REPOSITORY / "changelog.d"
FRAGMENTS = sorted(set(FOLDER.iterdir()) - {FOLDER / "README.md"})
TYPES = ("added", "changed", "fixed", "removed", "security")


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_fragment_has_valid_type_and_single_paragraph(fragment: Path) -> None:
    _, kind, suffix = fragment.name.rsplit(".", 2)
    assert (kind in TYPES, suffix) == (True, "md"), "changelog.d/README.md describes the names"
    text = fragment.read_text().strip()
    assert text.endswith(".")
    assert "\n\n" not in text


def test_the_next_section_has_every_fragment() -> None:
    section = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "2030-01-01"],
        cwd=paths.REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "## 9.9.9 (2030-01-01)" in section
    found = " ".join(section.split())
    for fragment in FRAGMENTS:
        assert " ".join(fragment.read_text().split()) in found
