"""Numbers in the forms that Ray and Kubernetes take, one form for each value."""

import math

from daybreak.api.schema.scalars import parse_quantity, seconds

_BINARY = ("Pi", "Ti", "Gi", "Mi", "Ki")
_DECIMAL = ("P", "T", "G", "M", "k", "")


def plain(value: float) -> int | float:
    """The same number, whole where it is one, so that `16` and `16.0` are written alike."""
    return int(value) if value == int(value) else value


def as_seconds(duration: str) -> int | float:
    """Seconds of a duration."""
    return plain(seconds(duration))


def whole_seconds(duration: str) -> int:
    """Seconds of a duration, rounded up."""
    return math.ceil(seconds(duration))


def canonical(quantity: str) -> str:
    """A quantity as the API server writes it: `1000m` is `1`, and `1024Mi` is `1Gi`.

    What is stored in this form can be compared with what was asked for.
    """
    amount = parse_quantity(quantity)
    if amount == 0:
        return "0"
    # An amount below 1024, and one that is no whole number of Ki, has no binary form.
    binary = quantity.endswith("i") and amount == int(amount) and amount % 1024 == 0
    for suffix in _BINARY if binary else _DECIMAL:
        number = amount / parse_quantity(f"1{suffix}")
        if number == int(number):
            return f"{int(number)}{suffix}"
    return f"{math.ceil(amount * 1000)}m"
