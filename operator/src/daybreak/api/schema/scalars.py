"""Kubernetes' written scalars: names, durations (`90s`, `1h30m`) and quantities (`16Gi`, `500m`)."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, WithJsonSchema

VALIDATIONS = "x-kubernetes-validations"
"""Where a CRD has its CEL rules."""
DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
"""What Kubernetes takes as the name of most objects (at most 253 characters)."""
DURATION_PATTERN = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?$"
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
SCALAR_LENGTH = 32
"""Longest duration or quantity, in characters."""
AUTO = "Auto"

ModelName = Annotated[
    str, Field(min_length=1, max_length=96, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$")
]
"""What clients send as `model`."""

_WRITE_DURATION = "write hours, minutes and seconds, such as 90s or 1h30m"
_WRITE_QUANTITY = "write a number with a unit, such as 500m, 4 or 16Gi"
_WRITE_AUTO = f"write {AUTO}, or hours, minutes and seconds, such as 90s or 1h30m"
_LONGER_THAN_ZERO = "must be longer than 0s"

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
    if not text or len(text) > SCALAR_LENGTH or not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"{text!r} is not a duration: {_WRITE_DURATION}")
    parts = re.findall(r"([0-9]+)(ms|h|m|s)", text)
    return timedelta(seconds=sum(int(number) * _SECONDS[unit] for number, unit in parts))


def seconds(duration: str) -> float:
    """A duration in seconds."""
    return parse_duration(duration).total_seconds()


def milliseconds(duration: str) -> int:
    """A duration in whole milliseconds, at least one; 0: it is empty, or cannot be read."""
    try:
        return max(1, int(seconds(duration) * 1000)) if duration else 0
    except ValueError:
        return 0


def duration_of(seconds: float) -> str:
    """A number of seconds as a duration, rounded to whole ones: `12m`, `1h30m`, `90s` as `1m30s`."""
    left = round(seconds)
    hours, minutes = left // 3600, left // 60 % 60
    parts = ((hours, "h"), (minutes, "m"), (left % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def parse_quantity(text: str) -> Decimal:
    """Read a Kubernetes quantity in its base unit (bytes, cores, devices).

    Raises ValueError when the text is not a quantity; signs and exponents (`1e3`) are not taken.
    """
    if len(text) > SCALAR_LENGTH or not re.fullmatch(QUANTITY_PATTERN, text):
        raise ValueError(f"{text!r} is not a quantity: {_WRITE_QUANTITY}")
    number = text.rstrip("mkKMGTPi")
    return Decimal(number) * _FACTORS[text[len(number) :]]


def _checked_duration(text: str) -> str:
    parse_duration(text)
    return text


def _longer_than_zero(text: str) -> str:
    if not parse_duration(text):
        raise ValueError(_LONGER_THAN_ZERO)
    return text


def _checked_duration_or_auto(text: str) -> str:
    if text == AUTO:
        return text
    try:
        return _checked_duration(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no time to wait: {_WRITE_AUTO}") from error


def _longer_than_zero_or_auto(text: str) -> str:
    return text if text == AUTO else _longer_than_zero(_checked_duration_or_auto(text))


def _checked_quantity(text: str) -> str:
    parse_quantity(text)
    return text


def _as_text(value: Any) -> Any:
    """YAML reads `cpu: 4` as a number, as Kubernetes does: take it as its text.

    A fraction is refused, as the API server refuses it: a CRD knows `int-or-string` only.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        raise ValueError(f"write {value} in quotes, or in thousandths with the unit m")
    return value


def _schema(pattern: str, *rules: tuple[str, str], least: int = 2) -> dict[str, JsonValue]:
    """Schema of a text: the pattern is for editors, the rules (CEL, message) say the same to people."""
    said: list[JsonValue] = [{"rule": rule, "message": message} for rule, message in rules]
    return {"pattern": pattern, "minLength": least, "maxLength": SCALAR_LENGTH, VALIDATIONS: said}


ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{DNS_SUBDOMAIN}$")]
"""Name of an object in the service's own namespace."""

_LABEL_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL_VALUE = rf"^({_LABEL_NAME})?$"

Labels = Annotated[
    dict[
        Annotated[str, Field(max_length=317, pattern=rf"^({DNS_SUBDOMAIN}/)?{_LABEL_NAME}$")],
        Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE)],
    ],
    Field(max_length=32),
    # A CRD has no rule for the names of properties: a wrong one is left to the operator.
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 63, "pattern": _LABEL_VALUE},
            "maxProperties": 32,
        }
    ),
]
"""Kubernetes labels."""

Annotations = Annotated[
    dict[
        Annotated[str, Field(max_length=317, pattern=rf"^({DNS_SUBDOMAIN}/)?{_LABEL_NAME}$")],
        Annotated[str, Field(max_length=65536)],
    ],
    Field(max_length=64),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 65536},
            "maxProperties": 64,
        }
    ),
]
"""Kubernetes annotations."""

_IS_DURATION = f"self.matches('{DURATION_PATTERN}')"

Duration = Annotated[
    str,
    AfterValidator(_checked_duration),
    Field(json_schema_extra=_schema(DURATION_PATTERN, (_IS_DURATION, _WRITE_DURATION))),
]
"""A length of time, such as `90s` or `1h30m`."""

PositiveDuration = Annotated[
    str,
    AfterValidator(_longer_than_zero),
    Field(
        json_schema_extra=_schema(
            DURATION_PATTERN,
            (_IS_DURATION, _WRITE_DURATION),
            (f"!{_IS_DURATION} || duration(self) > duration('0s')", _LONGER_THAN_ZERO),
        )
    ),
]
"""A length of time above zero."""

AutoOrDuration = Annotated[
    str,
    AfterValidator(_checked_duration_or_auto),
    Field(
        json_schema_extra=_schema(
            rf"^{AUTO}$|{DURATION_PATTERN}", (f"self == '{AUTO}' || {_IS_DURATION}", _WRITE_AUTO)
        )
    ),
]
"""`Auto`, or a length of time."""

AutoOrPositiveDuration = Annotated[
    str,
    AfterValidator(_longer_than_zero_or_auto),
    Field(
        json_schema_extra=_schema(
            rf"^{AUTO}$|{DURATION_PATTERN}",
            (f"self == '{AUTO}' || {_IS_DURATION}", _WRITE_AUTO),
            (f"!{_IS_DURATION} || duration(self) > duration('0s')", _LONGER_THAN_ZERO),
        )
    ),
]
"""`Auto`, or a length of time above zero."""

Quantity = Annotated[
    str,
    BeforeValidator(_as_text),
    AfterValidator(_checked_quantity),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY_PATTERN,
            "minimum": 0,
            "maxLength": SCALAR_LENGTH,
            VALIDATIONS: [
                {
                    "rule": f"type(self) == int || self.matches(r'{QUANTITY_PATTERN}')",
                    "message": _WRITE_QUANTITY,
                }
            ],
        }
    ),
]
"""A Kubernetes quantity, such as `500m`, `4` or `16Gi`."""
