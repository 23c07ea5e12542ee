"""Removal of secrets from text."""

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"(?i)token|secret|password|passwd|credential|api_?key|access_?key|private_?key")
_LEAST = 6
"""Minimum length of a secret. Shorter values are words, and blanking them would garble the text."""
_PATTERNS = (
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), "hf_***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}"), r"\1***"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@]+@"), r"\1***@"),
    (re.compile(r"(?i)([?&](?:x-amz-[a-z-]+|sig|signature|token|key|access_token)=)[^\s&\"']+"), r"\1***"),
)


def redacted(text: str, environment: Mapping[str, str]) -> str:
    """Return the text without secrets.

    Values of variables that name a secret are removed, and values that look like one.
    """
    secrets = {
        value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= _LEAST
    }
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text
