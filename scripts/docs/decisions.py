"""Page docs/decisions/README.md: index of the decisions with date and status."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
_HEAD = re.compile(
    r"\A# (?P<number>\d+)\. (?P<title>.+)\n\nDate: (?P<date>\d{4}-\d\d-\d\d)\. Status: (?P<status>.+)\n\n"
)
"""Pattern of the first lines of a decision: title, and a line with date, status and superseded decisions."""
_INTRODUCTION = """<!-- Made by `make generate` from the decisions; do not edit. -->
# Decisions

A decision states the context, the decision, the alternatives and the consequences. A new decision has the
next number and starts with its title and the line `Date: YYYY-MM-DD. Status: accepted.` If a decision
supersedes another one, both link each other in that line.

| Number | Decision | Date | Status |
| --- | --- | --- | --- |
"""


def decisions_md() -> str:
    """Return the index of the decisions. Raises ValueError if a decision has no date or status."""
    return _INTRODUCTION + "".join(_row(path) for path in sorted(FOLDER.glob("[0-9]*.md")))


def _row(path: Path) -> str:
    head = _HEAD.match(path.read_text())
    if head is None or int(head["number"]) != int(path.name[:4]):
        raise ValueError(
            f"{path.name}: start the file with `# {int(path.name[:4])}. TITLE`, an empty line and one line "
            "`Date: YYYY-MM-DD. Status: accepted.`"
        )
    status = head["status"].rstrip(".")
    return f"| {head['number']} | [{head['title']}]({path.name}) | {head['date']} | {status} |\n"
