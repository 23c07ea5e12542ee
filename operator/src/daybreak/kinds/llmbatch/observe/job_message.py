"""Message of a failed RayJob: the end of the job's log, to which engines write last."""

import json
import re

from daybreak.api.common.unstructured import mapping, text
from daybreak.jobs.observed import JobWords

OWN_ERROR = "daybreak.batch failed: "
"""Prefix of the log line with the batch's own error, as JSON (`daybreak_runtime.batch`)."""
_WORKER = re.compile(r"^(?:\x1b\[[0-9;]*m)*\([^()]*pid=\d+[^()]*\)")
"""Pattern of Ray's prefix of a line from a worker."""
_INTRODUCTION = re.compile(r"^Job entrypoint command failed .*last available logs.*:$")


def read_own_error(message: str) -> JobWords | None:
    """Return the batch's own error, or None if the message has none."""
    for line in reversed(message.splitlines()):
        if line.startswith(OWN_ERROR):
            try:
                report = mapping(json.loads(line.removeprefix(OWN_ERROR)))
            except ValueError:
                return None
            found = JobWords(
                "Failed", final=True, reason=text(report.get("reason")), message=text(report.get("message"))
            )
            return found if found.message else None
    return None


def drop_workers(message: str) -> str:
    """Return a message without the lines of workers, or the whole message if there are no other lines."""
    own = [line for line in message.splitlines() if not _WORKER.match(line)]
    telling = [line for line in own if line.strip() and not _INTRODUCTION.match(line)]
    return "\n".join(telling) if telling else message
