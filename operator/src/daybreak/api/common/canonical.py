"""JSON that is equal for equal values, and digests of it."""

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """A value as JSON: names in order, without white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any, length: int = 16) -> str:
    """Digest of a value, in so many characters: equal for equal values, whatever their order."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:length]
