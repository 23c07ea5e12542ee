"""Base of all API types: an immutable model, with rules for the API server and the operator."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from daybreak.api.schema.scalars import VALIDATIONS


class Rule(NamedTuple):
    """Rule across the fields of one type, enforced by the API server (CEL) and by the operator (Python).

    Both forms have the same meaning. The CEL may rely on the defaults of nested types. It must test its
    own fields with `has`, because the API server also evaluates it on the type's default, `{}`.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]


class ApiModel(BaseModel):
    """Base of all API types: immutable, camelCase on the wire, unknown fields rejected."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _keep_rules(self) -> Self:
        broken = [rule.message for rule in self.rules if not rule.holds(self)]
        if broken:
            raise ValueError("; ".join(broken))
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the type's schema with its rules, and `{}` as the default of parts with defaults."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls.rules:
            schema[VALIDATIONS] = [{"rule": rule.cel, "message": rule.message} for rule in cls.rules]
        for field in cls.model_fields.values():
            factory = field.default_factory
            if isinstance(factory, type) and issubclass(factory, ApiModel):
                schema["properties"][field.alias]["default"] = {}
        return schema


_MESSAGES = {"extra_forbidden": "there is no such field", "missing": "this field is needed"}


def readable(error: ValidationError, root: str = "spec") -> str:
    """Return each invalid field with its path and its problem.

    The text omits pydantic's own links and input dumps.
    """
    lines = []
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        path = root
        for step in detail["loc"]:
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
        message = _MESSAGES.get(detail["type"], detail["msg"].removeprefix("Value error, "))
        lines.append(f"{path}: {message}")
    return "; ".join(lines)
