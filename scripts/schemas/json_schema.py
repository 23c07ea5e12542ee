"""The JSON schema of an LLMService manifest, for editors: completion and red lines while typing."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.api.llmbatch import crd as batch_crd
from daybreak.api.llmbatch import definition as batch_definition
from daybreak.api.llmbenchmark import crd as benchmark_crd
from daybreak.api.llmbenchmark import definition as benchmark_definition
from daybreak.api.llmroute import crd as route_crd
from daybreak.api.llmroute import definition as route_definition
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice import crd, definition
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.modelserver import crd as server_crd
from daybreak.api.modelserver import definition as server_definition
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.api.schema.custom_resource import NAME_PATTERN
from daybreak.api.schema.resource import API_VERSION
from daybreak.api.serveapplication import crd as application_crd
from daybreak.api.serveapplication import definition as application_definition
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS

Schema = dict[str, Any]

ADDRESS = "https://json-schema.org/draft/2020-12/schema"
NOT_THE_ROUTERS: Schema = {"not": {"const": names.ROUTER}}
"""Of names of kinds for which a Service of that name is made."""


def json_schema() -> Schema:
    """Schema of a manifest as a person writes it: without status, unknown fields refused."""
    name = _name(definition.NAME_LIMIT) | NOT_THE_ROUTERS
    return _manifest(LLM_SERVICES.kind, name, crd.schema())


def batch_json_schema() -> Schema:
    """The same for an LLMBatch."""
    return _manifest(batch_definition.KIND, _name(batch_definition.NAME_LIMIT), batch_crd.schema())


def benchmark_json_schema() -> Schema:
    """The same for an LLMBenchmark."""
    name = _name(benchmark_definition.NAME_LIMIT)
    return _manifest(benchmark_definition.KIND, name, benchmark_crd.schema())


def server_json_schema() -> Schema:
    """The same for a ModelServer."""
    name = _name(server_definition.NAME_LIMIT) | NOT_THE_ROUTERS
    return _manifest(MODEL_SERVERS.kind, name, server_crd.schema())


def application_json_schema() -> Schema:
    """The same for a ServeApplication."""
    name = _name(application_definition.NAME_LIMIT) | NOT_THE_ROUTERS
    return _manifest(SERVE_APPLICATIONS.kind, name, application_crd.schema())


def route_json_schema() -> Schema:
    """The same for an LLMRoute."""
    return _manifest(LLM_ROUTES.kind, _name(route_definition.NAME_LIMIT), route_crd.schema())


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
    """A structural schema in the words of JSON Schema."""
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
