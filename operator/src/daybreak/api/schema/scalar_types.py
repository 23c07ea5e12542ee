"""Kubernetes scalars in text form as field types, with the rules by which the API server checks them."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, WithJsonSchema

from daybreak.api.schema.scalars import (
    AUTO,
    DNS_SUBDOMAIN,
    DURATION_PATTERN,
    QUANTITY_PATTERN,
    SCALAR_LENGTH,
    VALIDATIONS,
    WRITE_DURATION,
    WRITE_QUANTITY,
    parse_duration,
    parse_quantity,
)

_WRITE_AUTO = f"write {AUTO}, or hours, minutes and seconds, such as 90s or 1h30m"
_LONGER_THAN_ZERO = "must be longer than 0s"

ModelName = Annotated[
    str, Field(min_length=1, max_length=96, pattern=r"^/?[A-Za-z0-9]([A-Za-z0-9._:/-]*[A-Za-z0-9])?$")
]
"""Name that clients send as `model`: a name, a repository, an Ollama name with a tag, or a path."""


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
    """Return an integer as text, because YAML reads `cpu: 4` as a number, as Kubernetes does.

    Reject a fraction, as the API server does: a CRD supports `int-or-string` only.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        raise ValueError(f"write {value} in quotes, or in thousandths with the unit m")
    return value


def _schema(pattern: str, *rules: tuple[str, str], least: int = 2) -> dict[str, JsonValue]:
    """Return the schema of a text.

    The pattern is for editors. The rules (CEL, message) state the same for users.
    """
    report: list[JsonValue] = [{"rule": rule, "message": message} for rule, message in rules]
    return {"pattern": pattern, "minLength": least, "maxLength": SCALAR_LENGTH, VALIDATIONS: report}


ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{DNS_SUBDOMAIN}$")]
"""Name of an object in the service's namespace."""

_LABEL_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL_VALUE = rf"^({_LABEL_NAME})?$"

Labels = Annotated[
    dict[
        Annotated[str, Field(max_length=317, pattern=rf"^({DNS_SUBDOMAIN}/)?{_LABEL_NAME}$")],
        Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE)],
    ],
    Field(max_length=32),
    # A CRD cannot validate the names of properties, so the operator rejects wrong ones.
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
    Field(json_schema_extra=_schema(DURATION_PATTERN, (_IS_DURATION, WRITE_DURATION))),
]
"""Duration, such as `90s` or `1h30m`."""

PositiveDuration = Annotated[
    str,
    AfterValidator(_longer_than_zero),
    Field(
        json_schema_extra=_schema(
            DURATION_PATTERN,
            (_IS_DURATION, WRITE_DURATION),
            (f"!{_IS_DURATION} || duration(self) > duration('0s')", _LONGER_THAN_ZERO),
        )
    ),
]
"""Duration above zero."""

AutoOrDuration = Annotated[
    str,
    AfterValidator(_checked_duration_or_auto),
    Field(
        json_schema_extra=_schema(
            rf"^{AUTO}$|{DURATION_PATTERN}", (f"self == '{AUTO}' || {_IS_DURATION}", _WRITE_AUTO)
        )
    ),
]
"""`Auto`, or a duration."""

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
"""`Auto`, or a duration above zero."""

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
                    "message": WRITE_QUANTITY,
                }
            ],
        }
    ),
]
"""Kubernetes quantity, such as `500m`, `4` or `16Gi`."""
