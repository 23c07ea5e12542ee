"""Line length of the Markdown pages."""

import pytest

from scripts.docs.wrap import long_lines, wrap_md
from scripts.prose.check import ROOT, checked_files

PAGES = [name for name in checked_files() if name.endswith(".md")]
LONG = "word " * 30


@pytest.mark.parametrize("name", PAGES)
def test_prose_has_at_most_120_characters_a_line(name: str) -> None:
    assert long_lines((ROOT / name).read_text()) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LONG, "word " * 23 + "word\n" + "word " * 5 + "word\n"),
        (f"- {LONG}", "- " + "word " * 22 + "word\n  " + "word " * 6 + "word\n"),
        (f"> {LONG}", "> " + "word " * 22 + "word\n> " + "word " * 6 + "word\n"),
        ("word " * 23 + "wor - word", "word " * 23 + "wor -\nword\n"),
        ("word " * 22 + "`in line code`", "word " * 21 + "word\n`in line code`\n"),
        ("word " * 23 + "<!-- a b -->1<!-- -->", "word " * 23 + "<!-- a b -->1<!-- -->\n"),
        (f"| {LONG}", f"| {LONG}\n"),
        (f"    {LONG}", f"    {LONG}\n"),
        (f"```\n{LONG}\n```", f"```\n{LONG}\n```\n"),
    ],
    ids=["paragraph", "item", "quote", "no item by chance", "code", "figure", "table", "block", "fence"],
)
def test_only_prose_is_wrapped(before: str, after: str) -> None:
    assert wrap_md(before) == after
