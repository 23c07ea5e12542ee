"""Excerpts of foreign error messages: the relevant part, without secrets."""

import re

LIMIT = 600
"""Maximum length of an excerpt, in characters."""

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
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
    # Text that differs at every attempt would make every attempt look like a change.
    (re.compile(r"\s*\(Request ID: [^)]*\)"), ""),
    (re.compile(r"\bRequest ID:? [\w=;-]+"), ""),
    (re.compile(r"\b0x[0-9a-f]{4,}\b"), "0x…"),
    (re.compile(r"\bpid=\d+"), "pid=…"),
)


def excerpt(message: str, limit: int = LIMIT) -> str:
    """Return the message in one line of limited length, without secrets.

    Parts that change at every attempt are removed too.
    """
    plain = COLOURS.sub("", message[: 40 * limit])
    for pattern, instead in (*_SECRETS, *_FLEETING):
        plain = pattern.sub(instead, plain)
    line = " ".join(plain.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"
