"""Selection of the most informative error from the reports of Ray Serve and vLLM."""

import re

from daybreak.problems.drivers import driver_error
from daybreak.problems.redact import COLOURS, LIMIT, excerpt

_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Exit|Interrupt|Timeout|Failure|NotFound)\b"
    # botocore names some exceptions after the service's error: botocore.errorfactory.NoSuchBucket.
    r"|^(?:[a-z_]\w*\.)+[A-Z]\w*: "
)
_END = re.compile(
    r"^(?:Traceback \(|The above exception|During handling of|ray::|\s+File \"|\s+For further information)"
)
_SAYS_NOTHING = (
    "Engine core initialization failed",
    "Engine process failed to start",
    "EngineDeadError",
    "EngineCore encountered an issue",
    "RayTaskError",
    "WorkerProc initialization failed",
)
"""Messages of vLLM and Ray that only refer to another one."""
_MORE = "the cause is in the logs below /tmp/ray/session_latest/logs of the worker pod"
_NO_PACKAGE = re.compile(r"No module named '?daybreak_runtime(?![.\w])|Could not import '?daybreak_runtime\b")
"""Pattern for a missing package.

A missing module of the package does not match: a user may have misspelled its name, and the image is correct.
"""
_PACKAGE = (
    "the image (spec.runtime.image) lacks Daybreak's package: install daybreak-runtime in it "
    "(runtime of Daybreak's sources), or set spec.runtime.directIngress: false"
)
_MARKS = ("Error:\n", "failed with exception:\n", "failed:\n")
"""Text that Ray Serve writes before the message of the replica."""


def engine_error(message: str, limit: int = LIMIT) -> str:
    """Return the most informative error from Serve's report on a replica or an application.

    Serve forwards whole tracebacks, often several chained ones: the cause is the last exception that does not
    only refer to another one.
    """
    report = COLOURS.sub("", message)
    if of_the_driver := driver_error(report):
        return excerpt(of_the_driver, limit)
    for mark in _MARKS:
        _before, found, after = report.partition(mark)
        if found and after.strip():
            report = after
            break
    if _NO_PACKAGE.search(report):
        return excerpt(_PACKAGE, limit)
    errors = _exceptions(report)
    telling = [error for error in errors if not any(phrase in error for phrase in _SAYS_NOTHING)]
    if errors and not telling:
        return f"{excerpt(errors[-1], limit)} ({_MORE})"
    return excerpt((telling or [report])[-1], limit)


def _exceptions(message: str) -> list[str]:
    """Return each exception of a traceback, with the lines that belong to it."""
    found: list[list[str]] = []
    open_ = False
    for line in message.splitlines():
        if _EXCEPTION.match(line):
            found.append([line])
            open_ = True
        elif _END.match(line):
            open_ = False
        elif open_ and len(found[-1]) < 12:
            found[-1].append(line)
    return [
        re.sub(r"\s*\[type=\w+, input_value=.*", "", "\n".join(lines), flags=re.DOTALL) for lines in found
    ]
