"""Numbers in the forms that Ray and Kubernetes take, one form for each value."""

import math

from daybreak.api.scalars import seconds


def plain(value: float) -> int | float:
    """The same number, whole where it is one, so that `16` and `16.0` are written alike."""
    return int(value) if value == int(value) else value


def as_seconds(duration: str) -> int | float:
    """Seconds of a duration."""
    return plain(seconds(duration))


def whole_seconds(duration: str) -> int:
    """Seconds of a duration, rounded up."""
    return math.ceil(seconds(duration))
