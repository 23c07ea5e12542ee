"""The CustomResourceDefinition of LLMService, made from the models.

pydantic's JSON schema is turned into the structural schema that Kubernetes wants: no references, no
`additionalProperties: false` (the API server prunes or refuses unknown fields by itself), an optional
field instead of null, one line of description.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from daybreak.api import llmservice
from daybreak.api.scalars import VALIDATIONS
from daybreak.api.spec import LLMServiceSpec
from daybreak.api.status import LLMServiceStatus

__all__ = ["NAME", "VALIDATIONS", "crd", "printer_columns", "schema", "structural"]

Schema = dict[str, Any]

NAME = f"{llmservice.PLURAL}.{llmservice.GROUP}"
"""The CRD's own name."""

_DESCRIPTION = "Large language models behind one OpenAI address, run by Ray Serve and vLLM through KubeRay."
_DROPPED = ("title", "$defs", "discriminator")


def crd() -> Schema:
    """The whole CustomResourceDefinition."""
    names = {
        "kind": llmservice.KIND,
        "listKind": f"{llmservice.KIND}List",
        "plural": llmservice.PLURAL,
        "singular": llmservice.SINGULAR,
        "shortNames": [llmservice.SHORT_NAME],
        "categories": [llmservice.CATEGORY],
    }
    version = {
        "name": llmservice.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": printer_columns(),
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": schema()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {"group": llmservice.GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def schema() -> Schema:
    """Structural schema of the whole object."""
    spec = structural(LLMServiceSpec)
    status = structural(LLMServiceStatus)
    _forget_defaults(status)
    return {
        "description": _DESCRIPTION,
        "type": "object",
        "required": ["spec"],
        VALIDATIONS: [{"rule": rule.cel, "message": rule.message} for rule in llmservice.NAME_RULES],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always `{llmservice.API_VERSION}`."},
            "kind": {"type": "string", "description": f"Always `{llmservice.KIND}`."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }


def printer_columns() -> list[Schema]:
    """What `kubectl get llm` shows; columns of priority 1 only with `-o wide`."""

    def ready(field: str) -> str:
        return f'.status.conditions[?(@.type=="Ready")].{field}'

    return [
        {"name": "Ready", "type": "string", "jsonPath": ready("status")},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Reason", "type": "string", "jsonPath": ready("reason")},
        {"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"},
        {"name": "URL", "type": "string", "jsonPath": ".status.url"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "GPUs", "type": "integer", "jsonPath": ".status.gpus", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": ready("message"), "priority": 1},
    ]


def structural(model: type[BaseModel]) -> Schema:
    """Structural schema of one type."""
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
                # A number in JSON Schema, a switch in OpenAPI 3.0.
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
    """The node with its reference followed and without null; its own words go before the type's."""
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


def _forget_defaults(node: Schema) -> None:
    """Status has no defaults: what the operator has not said, nobody says."""
    node.pop("default", None)
    for field in node.get("properties", {}).values():
        _forget_defaults(field)
    if "items" in node:
        _forget_defaults(node["items"])
