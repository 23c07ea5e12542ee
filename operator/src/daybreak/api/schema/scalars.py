"""Kubernetes scalars in text form: names, durations (`90s`, `1h30m`) and quantities (`16Gi`, `500m`)."""

import re
from datetime import timedelta
from decimal import Decimal

VALIDATIONS = "x-kubernetes-validations"
"""Key of the CEL rules in a CRD."""
DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
"""Pattern of the names of most Kubernetes objects (at most 253 characters)."""
DURATION_PATTERN = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?$"
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
SCALAR_LENGTH = 32
"""Maximum length of a duration or quantity, in characters."""
AUTO = "Auto"

WRITE_DURATION = "write hours, minutes and seconds, such as 90s or 1h30m"
WRITE_QUANTITY = "write a Kubernetes quantity, such as 500m, 4 or 16Gi"

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_FACTORS = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
}


def parse_duration(text: str) -> timedelta:
    """Read a duration of hours, minutes, seconds and milliseconds, in that order, such as `1h30m`.

    Raises:
        ValueError: The text is empty or has another form.
    """
    if not text or len(text) > SCALAR_LENGTH or not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"{text!r} is not a duration: {WRITE_DURATION}")
    parts = re.findall(r"([0-9]+)(ms|h|m|s)", text)
    return timedelta(seconds=sum(int(number) * _SECONDS[unit] for number, unit in parts))


def seconds(duration: str) -> float:
    """Return a duration in seconds."""
    return parse_duration(duration).total_seconds()


def milliseconds(duration: str) -> int:
    """Return a duration in whole milliseconds, at least 1, or 0 if it is empty or unreadable."""
    try:
        return max(1, int(seconds(duration) * 1000)) if duration else 0
    except ValueError:
        return 0


def duration_of(seconds: float) -> str:
    """Return a number of seconds as a duration: `12m`, `1h30m`, or `1m30s` for 90 seconds.

    The duration is rounded to whole seconds.
    """
    left = round(seconds)
    hours, minutes = left // 3600, left // 60 % 60
    parts = ((hours, "h"), (minutes, "m"), (left % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def parse_quantity(text: str) -> Decimal:
    """Read a Kubernetes quantity in its base unit (bytes, CPUs, devices).

    Raises:
        ValueError: The text is not a quantity. Signs and exponents (`1e3`) are not supported.
    """
    if len(text) > SCALAR_LENGTH or not re.fullmatch(QUANTITY_PATTERN, text):
        raise ValueError(f"{text!r} is not a quantity: {WRITE_QUANTITY}")
    number = text.rstrip("mkKMGTPi")
    return Decimal(number) * _FACTORS[text[len(number) :]]
