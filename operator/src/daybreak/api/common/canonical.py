"""Canonical JSON, which is equal for equal values, and digests of it."""

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """Return a value as JSON with sorted names and without white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any, length: int = 16) -> str:
    """Return a digest of a value with `length` characters.

    Equal values have equal digests, regardless of their order.
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:length]
