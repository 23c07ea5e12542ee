"""Find the first failing check in the log of a phase; the last lines of a failed run show it."""

import re
from collections.abc import Sequence

MAXIMUM_LINES = 120
"""Maximum number of lines of an excerpt. CI keeps the end of a run's output."""

_HEADING = re.compile(r"^_{3,} (?P<name>\S.*\S) _{3,}$")
_SECTION = re.compile(r"^-{3,} .* -{3,}$|^={3,} .* ={3,}$")
_TROUBLE = re.compile(
    r"\b(error|exception|traceback|fatal|fail(ed|ure|s)?|refused|timed? ?out|back-?off|evict(ed|ion)|"
    r"killed|oom|unhealthy|warning)\b",
    re.IGNORECASE,
)
_FAILED_LINE = re.compile(r"^(FAILED|ERROR) ")


def excerpt(log: str, limit: int = MAXIMUM_LINES) -> list[str]:
    """Return the lines of a log that explain its failure.

    For pytest: the names of all failed tests, the first failure with its assertion, and the error lines of
    the logs that the test shows (operator, gateway, pods, kubelet). For other programs: the last lines.

    Args:
        log: Output of the phase.
        limit: Maximum number of lines.
    """
    lines = log.splitlines()
    failure = _first_failure(lines)
    if not failure:
        return lines[-limit:]
    names = [line for line in lines if _FAILED_LINE.match(line)][:20]
    return (names + _shorten(failure, limit - len(names)))[:limit]


def _first_failure(lines: Sequence[str]) -> list[str]:
    """Return the first block with a test's name as its pytest heading, up to the next heading."""
    start = next((number for number, line in enumerate(lines) if _HEADING.match(line)), None)
    if start is None:
        return []
    rest = lines[start + 1 :]
    end = next(
        (number for number, line in enumerate(rest) if _HEADING.match(line) or line.startswith("=====")),
        len(rest),
    )
    return [lines[start], *rest[:end]]


def _shorten(failure: Sequence[str], limit: int) -> list[str]:
    """Return the traceback if it fits, then the error lines of the sections after it, newest last."""
    section = next((number for number, line in enumerate(failure) if _SECTION.match(line)), len(failure))
    traceback, sections = list(failure[:section]), failure[section:]
    kept = traceback[-limit // 2 :]
    # Keep the headings and the errors of sections. Commands of kubectl are headings in `picture`.
    telling = [
        line for line in sections if _SECTION.match(line) or line.startswith("$ ") or _TROUBLE.search(line)
    ]
    room = max(0, limit - len(kept))
    return kept + telling[len(telling) - room if len(telling) > room else 0 :]
