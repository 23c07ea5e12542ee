"""Kubernetes' written scalars: durations (`90s`, `1h30m`) and quantities (`16Gi`, `500m`)."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

DURATION_PATTERN = r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"

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

    Raises ValueError when the text is empty or of another form.
    """
    if not text or not re.match(DURATION_PATTERN, text):
        raise ValueError(
            f"{text!r} is not a duration: write hours, minutes and seconds, such as 90s or 1h30m"
        )
    parts = re.findall(r"([0-9]+)(ms|h|m|s)", text)
    return timedelta(seconds=sum(int(number) * _SECONDS[unit] for number, unit in parts))


def seconds(duration: str) -> float:
    """A duration in seconds."""
    return parse_duration(duration).total_seconds()


def parse_quantity(text: str) -> Decimal:
    """Read a Kubernetes quantity in its base unit (bytes, cores, devices).

    Raises ValueError when the text is not a quantity; exponents (`1e3`) are not taken.
    """
    if not re.match(QUANTITY_PATTERN, text):
        raise ValueError(f"{text!r} is not a quantity: write a number with a unit, such as 500m, 4 or 16Gi")
    number = re.match(r"[0-9.]+", text)
    assert number is not None  # noqa: S101 - the pattern above begins with digits
    return Decimal(number.group()) * _FACTORS[text[number.end() :]]


def _checked_duration(text: str) -> str:
    parse_duration(text)
    return text


def _checked_quantity(text: str) -> str:
    parse_quantity(text)
    return text


def _as_text(value: Any) -> Any:
    """YAML reads `cpu: 4` as a number, as Kubernetes does: take it as its text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


Duration = Annotated[
    str,
    AfterValidator(_checked_duration),
    Field(json_schema_extra={"pattern": DURATION_PATTERN, "minLength": 2, "maxLength": 32}),
]
"""A length of time, such as `90s` or `1h30m`."""

Quantity = Annotated[
    str,
    BeforeValidator(_as_text),
    AfterValidator(_checked_quantity),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN, "maxLength": 32}),
]
"""A Kubernetes quantity, such as `500m`, `4` or `16Gi`."""
