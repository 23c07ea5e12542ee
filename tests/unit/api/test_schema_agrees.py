"""The schema and the models accept the same values, except for the rules across fields."""

import copy
import json
from typing import Any

import hypothesis
import jsonschema
import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.api.modelserver.spec import ModelServerSpec
from daybreak.api.schema import scalars
from daybreak.api.schema.base import ApiModel
from daybreak.api.serveapplication.spec import ServeApplicationSpec
from scripts.kinds import LLM_SERVICE, MODEL_SERVER, SERVE_APPLICATION
from scripts.schemas.json_schema import json_schema
from tests.accepted_specs import TAKEN
from tests.broken_specs import BY_RULE
from tests.budget import examples
from tests.out_of_bounds_specs import BY_SCHEMA
from tests.specs import Broken

Schema = dict[str, Any]

WHOLE = json_schema(LLM_SERVICE)
KINDS: dict[str, tuple[Schema, type[ApiModel]]] = {
    "LLMService": (WHOLE["properties"]["spec"], LLMServiceSpec),
    "ModelServer": (json_schema(MODEL_SERVER)["properties"]["spec"], ModelServerSpec),
    "ServeApplication": (json_schema(SERVE_APPLICATION)["properties"]["spec"], ServeApplicationSpec),
}
EDITOR = jsonschema.Draft202012Validator(WHOLE)

DURATIONS = st.builds("{}{}".format, st.integers(1, 999_999), st.sampled_from(["h", "m", "s", "ms"]))
QUANTITIES = st.builds("{}{}".format, st.integers(0, 9999), st.sampled_from(["", "m", "k", "Mi", "Gi"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
SETTINGS = hypothesis.settings(
    max_examples=examples(40), suppress_health_check=[hypothesis.HealthCheck.too_slow], deadline=None
)


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Return values that the schema allows."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case None:
            return JSON
        case ["integer", "string"]:
            return QUANTITIES | st.integers(0, 9999)
        case "object":
            return objects(schema)
        case "array":
            return st.lists(
                values(schema["items"]),
                min_size=schema.get("minItems", 0),
                max_size=min(2, schema["maxItems"]),
            )
        case "string":
            return texts(schema)
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            above = "exclusiveMinimum" in schema
            least = schema["exclusiveMinimum" if above else "minimum"]
            return st.floats(least, schema["maximum"], exclude_min=above)
        case "boolean":
            return st.booleans()
    raise AssertionError(f"no values for {schema}")


def objects(schema: Schema) -> st.SearchStrategy[Any]:
    """Return objects with the required properties and some others."""
    if "properties" not in schema:
        keys = st.from_regex(r"\A[a-z]{1,8}\Z")
        return st.dictionaries(keys, values(schema["additionalProperties"]), max_size=3)
    needed = set(schema.get("required", ()))
    properties = {name: values(field) for name, field in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: strategy for name, strategy in properties.items() if name in needed},
        optional={name: strategy for name, strategy in properties.items() if name not in needed},
    )


def texts(schema: Schema) -> st.SearchStrategy[str]:
    """Return texts with the pattern and the length of the schema."""
    pattern, least, most = schema.get("pattern"), schema.get("minLength", 0), schema["maxLength"]
    if pattern is None:
        return st.text(min_size=least, max_size=min(most, least + 20))
    if scalars.DURATION_PATTERN in pattern:
        auto = st.just(scalars.AUTO)
        return DURATIONS if pattern == scalars.DURATION_PATTERN else DURATIONS | auto
    ascii_only = st.characters(min_codepoint=33, max_codepoint=126)
    found = st.from_regex(pattern, fullmatch=True, alphabet=ascii_only)
    return found.map(str.strip).filter(lambda text: least <= len(text) <= most)


def own_words(error: ValidationError) -> bool:
    """Return True if the error breaks only rules that JSON Schema cannot express."""
    return all(detail["type"] == "value_error" for detail in error.errors())


@pytest.mark.parametrize("kind", KINDS)
@SETTINGS
@hypothesis.given(st.data())
def test_models_accept_schema_valid_specs_except_for_own_rules(kind: str, data: st.DataObject) -> None:
    schema, model = KINDS[kind]
    validator = jsonschema.Draft202012Validator(schema)
    spec = data.draw(values(schema))
    validator.validate(spec)
    try:
        taken = model.model_validate(spec)
    except ValidationError as error:
        assert own_words(error), error  # noqa: PT017 - either way is fine, but not a third one
    else:
        written = json.loads(taken.model_dump_json(by_alias=True, exclude_none=True))
        validator.validate(written)
        assert model.model_validate(written) == taken


def places(value: Any, schema: Schema, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Schema]]:
    """Return the path and schema of every value with a type."""
    if "type" not in schema:
        return []
    found = [(path, schema)]
    if isinstance(value, dict):
        for name, part in value.items():
            inner = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if isinstance(inner, dict):
                found += places(part, inner, (*path, name))
    if isinstance(value, list):
        for number, part in enumerate(value):
            found += places(part, schema["items"], (*path, number))
    return found


def spoilt(schema: Schema) -> st.SearchStrategy[Any]:
    """Return values that the schema forbids."""
    wrong: list[Any] = [[1], {"no-such-field-here": 1}]
    match schema["type"]:
        case "object":
            wrong = [[1], "word", 7] if "additionalProperties" in schema else [[1], "word", 7, {"colour": 1}]
        case "array":
            wrong = ["word", 7, {"a": 1}]
        case "string":
            wrong += [7, "" if schema.get("minLength") else 7, "x" * (schema.get("maxLength", 99999) + 1)]
        case "integer" | "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum"))
            wrong += ["word", 0.5 if schema["type"] == "integer" else "word"]
            wrong += [] if low is None else [low - 1]
            wrong += [schema["maximum"] + 1] if "maximum" in schema else []
        case ["integer", "string"]:
            wrong += ["word", -1, 0.5, True]
        case "boolean":
            wrong += ["word", 7]
    return st.sampled_from(wrong)


@pytest.mark.parametrize("kind", KINDS)
@SETTINGS
@hypothesis.given(st.data())
def test_models_reject_specs_that_schema_rejects(kind: str, data: st.DataObject) -> None:
    of_kind, model = KINDS[kind]
    spec = data.draw(values(of_kind))
    path, schema = data.draw(st.sampled_from(places(spec, of_kind)))
    wrong = data.draw(spoilt(schema))
    whole: Any = {"spec": copy.deepcopy(spec)}
    parent = whole
    for step in ("spec", *path)[:-1]:
        parent = parent[step]
    parent[("spec", *path)[-1]] = wrong
    hypothesis.note(f"{path} = {wrong!r}")
    assert not jsonschema.Draft202012Validator(of_kind).is_valid(whole["spec"])
    with pytest.raises(ValidationError):
        model.model_validate(whole["spec"])


@pytest.mark.parametrize("taken", TAKEN.values(), ids=TAKEN.keys())
def test_editor_schema_accepts_valid_manifest(taken: Schema) -> None:
    EDITOR.validate(taken)


@pytest.mark.parametrize("broken", BY_SCHEMA, ids=lambda broken: broken.id)
def test_editor_schema_rejects_out_of_bounds_manifest(broken: Broken) -> None:
    with pytest.raises(jsonschema.ValidationError):
        EDITOR.validate(broken.manifest)


def test_editor_schema_rejects_invalid_metadata_name() -> None:
    for broken in BY_RULE:
        if broken.rule.startswith("metadata.name"):
            with pytest.raises(jsonschema.ValidationError):
                EDITOR.validate(broken.manifest)
