"""JSON schema of each kind's manifest, for editors: completion and errors while typing."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.api.schema.custom_resource import NAME_PATTERN
from daybreak.api.schema.resource import API_VERSION
from scripts.kinds import Kind

Schema = dict[str, Any]

ADDRESS = "https://json-schema.org/draft/2020-12/schema"
NOT_THE_ROUTERS: Schema = {"not": {"const": names.ROUTER}}
"""Name schema of kinds that create a Service of the same name."""


def json_schema(kind: Kind) -> Schema:
    """Return the schema of a user's manifest: without status, unknown fields rejected."""
    name = _name(kind.name_limit) | (NOT_THE_ROUTERS if kind.has_service else {})
    return _manifest(kind.crd.resource.kind, name, kind.crd.schema())


def _name(limit: int) -> Schema:
    return {"type": "string", "maxLength": limit, "pattern": NAME_PATTERN}


def _manifest(kind: str, name: Schema, whole: Schema) -> Schema:
    return {
        "$schema": ADDRESS,
        "title": kind,
        "description": whole["description"],
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind},
            "metadata": {"type": "object", "required": ["name"], "properties": {"name": name}},
            "spec": _for_editors(whole["properties"]["spec"]),
            "status": {"type": "object", "description": "Written by the operator."},
        },
    }


def _for_editors(node: Mapping[str, Any]) -> Schema:
    """Return a structural schema as JSON Schema."""
    done: Schema = {}
    for key, value in node.items():
        match key:
            case "properties":
                done[key] = {name: _for_editors(field) for name, field in value.items()}
            case "items" | "additionalProperties":
                done[key] = _for_editors(value)
            case "x-kubernetes-int-or-string":
                done["type"] = ["integer", "string"]
            case "exclusiveMinimum" | "exclusiveMaximum" | "nullable":
                pass
            case "minimum" if node.get("exclusiveMinimum"):
                done["exclusiveMinimum"] = value
            case "maximum" if node.get("exclusiveMaximum"):
                done["exclusiveMaximum"] = value
            case _ if key.startswith("x-kubernetes-"):
                pass
            case _:
                done[key] = value
    if "properties" in done and not node.get("x-kubernetes-preserve-unknown-fields"):
        done["additionalProperties"] = False
    return done
