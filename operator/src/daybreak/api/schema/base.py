"""What every type of the API is built on: an immutable model, and rules that hold in two places."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from daybreak.api.schema.scalars import VALIDATIONS


class Rule(NamedTuple):
    """A rule across the fields of one type, kept by the API server (CEL) and by the operator (Python).

    Both say the same. The CEL may count on the defaults of the parts below its own type; its own fields it
    must ask for with `has`, since the API server also tries it on the type's default, `{}`.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]


class ApiModel(BaseModel):
    """Base of every type of the API: immutable, camelCase on the wire, unknown fields refused."""

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
        """The type's schema with its rules, and `{}` as default of parts that have defaults of their own."""
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
    """Each wrong field with its path and what is wrong, without pydantic's own links and input dumps."""
    lines = []
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        path = root
        for step in detail["loc"]:
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
        message = _MESSAGES.get(detail["type"], detail["msg"].removeprefix("Value error, "))
        lines.append(f"{path}: {message}")
    return "; ".join(lines)
