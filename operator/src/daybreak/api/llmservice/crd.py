"""The CustomResourceDefinition of LLMService, made from the models."""

from daybreak.api.common import resource
from daybreak.api.common.scalars import VALIDATIONS
from daybreak.api.common.structural import Schema, forget_defaults, structural
from daybreak.api.llmservice import definition
from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.api.llmservice.status import LLMServiceStatus

__all__ = ["NAME", "VALIDATIONS", "crd", "printer_columns", "schema", "structural"]

NAME = f"{definition.PLURAL}.{resource.GROUP}"
"""The CRD's own name."""

_DESCRIPTION = "Large language models behind one OpenAI address, run by Ray Serve and vLLM through KubeRay."


def crd() -> Schema:
    """The whole CustomResourceDefinition."""
    names = {
        "kind": definition.KIND,
        "listKind": f"{definition.KIND}List",
        "plural": definition.PLURAL,
        "singular": definition.SINGULAR,
        "shortNames": [definition.SHORT_NAME],
        "categories": [definition.CATEGORY],
    }
    version = {
        "name": resource.VERSION,
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
        "spec": {"group": resource.GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def schema() -> Schema:
    """Structural schema of the whole object."""
    spec = structural(LLMServiceSpec)
    status = structural(LLMServiceStatus)
    forget_defaults(status)
    return {
        "description": _DESCRIPTION,
        "type": "object",
        "required": ["spec"],
        VALIDATIONS: [{"rule": rule.cel, "message": rule.message} for rule in definition.NAME_RULES],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always `{resource.API_VERSION}`."},
            "kind": {"type": "string", "description": f"Always `{definition.KIND}`."},
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
        {"name": "Outdated", "type": "boolean", "jsonPath": ".status.defaults.outdated", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": ready("message"), "priority": 1},
    ]
