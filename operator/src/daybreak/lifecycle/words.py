"""Other people's error messages, cut down to what a person needs to read, and with no secret in them."""

import re

from daybreak.lifecycle.drivers import driver_error

LIMIT = 600
"""Longest excerpt, in characters."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SECRETS = (
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), "hf_***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}"), r"\1***"),
    (re.compile(r"(?i)\b([a-z-]+://)[^\s/@:]+:[^\s/@]+@"), r"\1***@"),
    (
        re.compile(
            r"(?i)((?:secret|token|password|passwd|api[_-]?key|signature|credential)[A-Za-z0-9_-]*"
            r"[\"']?\s*[=:]\s*[\"']?)(?!<)[A-Za-z0-9._~+/%-]{8,}"
        ),
        r"\1***",
    ),
)
_FLEETING = (
    # What differs at every attempt would make every attempt look like news.
    (re.compile(r"\s*\(Request ID: [^)]*\)"), ""),
    (re.compile(r"\bRequest ID:? [\w=;-]+"), ""),
    (re.compile(r"\b0x[0-9a-f]{4,}\b"), "0x…"),
    (re.compile(r"\bpid=\d+"), "pid=…"),
)
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Exit|Interrupt|Timeout|Failure|NotFound)\b"
    # botocore names some after what the service said: botocore.errorfactory.NoSuchBucket.
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
"""vLLM's and Ray's messages that only point at another one."""
_MORE = "the cause is in the logs below /tmp/ray/session_latest/logs of the worker pod"
_NO_PACKAGE = re.compile(r"(?:No module named|Could not import) '?daybreak_runtime\b")
_PACKAGE = (
    "the image (spec.runtime.image) lacks Daybreak's package: install daybreak-runtime in it "
    "(images/ray/runtime of Daybreak's sources), or set spec.runtime.directIngress: false"
)
_MARKS = ("Error:\n", "failed with exception:\n", "failed:\n")
"""What Ray Serve writes before the words of the replica."""


def excerpt(message: str, limit: int = LIMIT) -> str:
    """The message in one line, of bounded length, without secrets or what changes at every attempt."""
    plain = _COLOURS.sub("", message[: 40 * limit])
    for pattern, instead in (*_SECRETS, *_FLEETING):
        plain = pattern.sub(instead, plain)
    line = " ".join(plain.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def engine_error(message: str, limit: int = LIMIT) -> str:
    """The one error that says most, out of what Serve reports of a replica or an application.

    Serve hands on whole tracebacks, often several chained: the last exception that is more than a pointer
    to another one tells what is wrong.
    """
    said = _COLOURS.sub("", message)
    if of_the_driver := driver_error(said):
        return excerpt(of_the_driver, limit)
    for mark in _MARKS:
        _before, found, after = said.partition(mark)
        if found and after.strip():
            said = after
            break
    if _NO_PACKAGE.search(said):
        return excerpt(_PACKAGE, limit)
    errors = _exceptions(said)
    telling = [error for error in errors if not any(phrase in error for phrase in _SAYS_NOTHING)]
    if errors and not telling:
        return f"{excerpt(errors[-1], limit)} ({_MORE})"
    return excerpt((telling or [said])[-1], limit)


def _exceptions(said: str) -> list[str]:
    """Each exception of a traceback with the lines that belong to it."""
    found: list[list[str]] = []
    open_ = False
    for line in said.splitlines():
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
