"""Structural schemas of CustomResourceDefinitions, generated from the models.

This module converts pydantic's JSON schema to the form that Kubernetes requires. That form contains no
references, and no `additionalProperties: false`, because the API server itself prunes or rejects unknown
fields. Fields are optional instead of null, and descriptions have one line.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_DROPPED = ("title", "$defs", "discriminator")


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural schema of one type."""
    generated = model.model_json_schema(by_alias=True)
    return _structural(generated, generated.get("$defs", {}))


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    plain = _resolved(node, definitions)
    done: Schema = {}
    for key, value in plain.items():
        match key:
            case "properties":
                done[key] = {name: _structural(field, definitions) for name, field in value.items()}
            case "items":
                done[key] = _structural(value, definitions)
            case "additionalProperties":
                if isinstance(value, Mapping):
                    done[key] = _structural(value, definitions)
            case "exclusiveMinimum":
                # exclusiveMinimum is a number in JSON Schema and a boolean in OpenAPI 3.0.
                done |= {"minimum": value, "exclusiveMinimum": True}
            case "exclusiveMaximum":
                done |= {"maximum": value, "exclusiveMaximum": True}
            case "description":
                done[key] = " ".join(value.split())
            case "default" if value is None:
                pass
            case _ if key in _DROPPED:
                pass
            case "allOf" | "anyOf" | "oneOf" | "const" | "not" | "$ref" | "propertyNames" | "prefixItems":
                raise ValueError(f"a structural schema has no place for {key}: {node}")
            case _:
                done[key] = value
    return done


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """Return the node with its reference resolved and without null.

    The node's own keys take precedence over those of the type.
    """
    own = dict(node)
    if "$ref" in own:
        target = definitions[own.pop("$ref").rpartition("/")[2]]
        return _resolved(target, definitions) | own
    if "anyOf" in own:
        alternatives = [part for part in own.pop("anyOf") if part != {"type": "null"}]
        if len(alternatives) != 1:
            raise ValueError(f"a field has one type in Kubernetes: {node}")
        return _resolved(alternatives[0], definitions) | own
    return own


def forget_defaults(node: Schema) -> None:
    """Remove the defaults from a status schema.

    An absent status field means that the operator has not reported it.
    """
    node.pop("default", None)
    for field in node.get("properties", {}).values():
        forget_defaults(field)
    if "items" in node:
        forget_defaults(node["items"])
