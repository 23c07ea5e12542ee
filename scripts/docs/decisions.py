"""Page docs/decisions/README.md: every decision with its date and status, from the decisions' files."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
_HEAD = re.compile(
    r"\A# (?P<number>\d+)\. (?P<title>.+)\n\nDate: (?P<date>\d{4}-\d\d-\d\d)\. Status: (?P<status>.+)\n\n"
)
"""Pattern of a decision's first lines: the title, and a line with date, status and superseded decisions."""
_INTRODUCTION = """<!-- Made by `make generate` from the decisions; do not edit. -->
# Decisions

A decision states its context, the decision, the alternatives and the consequences. A new one takes the next
number and begins with its title and one line `Date: YYYY-MM-DD. Status: accepted.` A decision that replaces
another one links it in that line, and the other one links back.

| Number | Decision | Date | Status |
| --- | --- | --- | --- |
"""


def decisions_md() -> str:
    """Return the index. Raises ValueError for a decision without date and status."""
    return _INTRODUCTION + "".join(_row(path) for path in sorted(FOLDER.glob("[0-9]*.md")))


def _row(path: Path) -> str:
    head = _HEAD.match(path.read_text())
    if head is None or int(head["number"]) != int(path.name[:4]):
        raise ValueError(
            f"{path.name}: begin it with `# {int(path.name[:4])}. TITLE`, an empty line and one line "
            "`Date: YYYY-MM-DD. Status: accepted.`"
        )
    status = head["status"].rstrip(".")
    return f"| {head['number']} | [{head['title']}]({path.name}) | {head['date']} | {status} |\n"
