"""Cause of an engine's failed start, in its own words, for the message that Serve shows.

vLLM's engine core is a separate process. When it fails, the replica only learns that it failed ("See root
cause above"); the cause is in the core's output, which goes to the log file of the replica's process.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from daybreak_runtime.start.redact import redacted

_POINTS_ELSEWHERE = ("See root cause above", "initialization failed", "RayTaskError", "EngineDeadError")
_TAIL_BYTES = 256 * 1024
_MOST_LINES = 12
_MOST_CHARACTERS = 1500
_PREFIX = re.compile(
    r"^(?:\x1b\[[0-9;]*m)*(?:\([^()]*pid=\d+[^()]*\)(?:\x1b\[[0-9;]*m)*\s?)?"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
)
"""vLLM's prefix of a line: the process, and in its log the level, time and place."""
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|NotFound)\b(?::|$)")
_FRAME = re.compile(r"^(?:Traceback \(|\s|During handling of|The above exception|$)")


class EngineStartError(RuntimeError):
    """The engine did not start; the message has the engine's own error."""


@contextlib.contextmanager
def raise_cause() -> Iterator[None]:
    """Replace an exception that only points to the log by its cause in the log."""
    starts = {log: log.stat().st_size for log in _own_logs()}
    try:
        yield
    except Exception as error:
        if not any(phrase in str(error) for phrase in _POINTS_ELSEWHERE):
            raise
        causes = (cause(_since(log, start), os.environ) for log, start in starts.items())
        found = next(filter(None, causes), "")
        if not found:
            raise
        raise EngineStartError(found) from error


def cause(written: str, environment: Mapping[str, str]) -> str:
    """Return the last exception in a log, without secrets, or nothing.

    An exception that only points to another one does not count.
    """
    found: list[list[str]] = []
    going_on: str | None = None
    for raw in written.splitlines():
        prefix = _PREFIX.match(raw)
        origin = prefix[0] if prefix else ""
        line = raw.removeprefix(origin)
        if _EXCEPTION.match(line):
            found.append([line])
            going_on = origin
        elif origin != going_on or _FRAME.match(line):
            # Another message, or the frames of the next exception.
            going_on = None
        elif len(found[-1]) < _MOST_LINES:
            found[-1].append(line)
    errors = ["\n".join(lines) for lines in found]
    telling = [error for error in errors if not any(phrase in error for phrase in _POINTS_ELSEWHERE)]
    return redacted(telling[-1], environment)[:_MOST_CHARACTERS] if telling else ""


def _own_logs() -> list[Path]:
    """Return the output files of this process and its children.

    vLLM's log goes to standard output; the last messages of a process, to standard error.
    """
    files = (Path(os.readlink(f"/proc/self/fd/{number}")) for number in (1, 2))
    return [path for path in dict.fromkeys(files) if path.is_file()]


def _since(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace")
