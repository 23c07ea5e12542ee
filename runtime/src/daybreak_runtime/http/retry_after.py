"""Header Retry-After."""

import time
from email.utils import parsedate_to_datetime

_LIMIT = 600.0


def retry_after(written: str | None) -> float | None:
    """Return the seconds of a Retry-After header, from a number or a date, or None if it is invalid."""
    if not written:
        return None
    try:
        seconds = float(written)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(written).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return min(max(seconds, 0.0), _LIMIT)
