"""Numbers in the formats of Ray and Kubernetes, with one format for each value."""

import math

from daybreak.api.schema.scalars import parse_quantity, seconds

_BINARY = ("Pi", "Ti", "Gi", "Mi", "Ki")
_DECIMAL = ("P", "T", "G", "M", "k", "")


def plain(value: float) -> int | float:
    """Return a number as an integer if it is whole, so that `16` and `16.0` are written alike."""
    return int(value) if value == int(value) else value


def as_seconds(duration: str) -> int | float:
    """Return the seconds of a duration."""
    return plain(seconds(duration))


def whole_seconds(duration: str) -> int:
    """Return the seconds of a duration, rounded up."""
    return math.ceil(seconds(duration))


def canonical(quantity: str) -> str:
    """Return a quantity in the API server's format: `1000m` is `1`, and `1024Mi` is `1Gi`.

    Stored quantities in this format can be compared with desired ones.
    """
    amount = parse_quantity(quantity)
    if amount == 0:
        return "0"
    # An amount that is below 1024, or no whole number of Ki, has no binary format.
    binary = quantity.endswith("i") and amount == int(amount) and amount % 1024 == 0
    for suffix in _BINARY if binary else _DECIMAL:
        number = amount / parse_quantity(f"1{suffix}")
        if number == int(number):
            return f"{int(number)}{suffix}"
    return f"{math.ceil(amount * 1000)}m"
