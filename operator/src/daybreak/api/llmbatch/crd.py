"""The CustomResourceDefinition of LLMBatch, made from the models."""

from daybreak.api.common import resource
from daybreak.api.common.scalars import VALIDATIONS
from daybreak.api.common.structural import Schema, forget_defaults, structural
from daybreak.api.llmbatch import definition
from daybreak.api.llmbatch.spec import LLMBatchSpec
from daybreak.api.llmbatch.status import LLMBatchStatus

NAME = f"{definition.PLURAL}.{resource.GROUP}"
"""The CRD's own name."""
DESCRIPTION = "A table of prompts in, a table of answers out: a Ray job with vLLM, or through an LLMService."


def crd() -> Schema:
    """The whole CustomResourceDefinition."""
    version = {
        "name": resource.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": printer_columns(),
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema()},
    }
    names = {
        "kind": definition.KIND,
        "listKind": f"{definition.KIND}List",
        "plural": definition.PLURAL,
        "singular": definition.SINGULAR,
        "categories": [definition.CATEGORY],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {"group": resource.GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def schema() -> Schema:
    """Structural schema of the whole object."""
    status = structural(LLMBatchStatus)
    forget_defaults(status)
    return {
        "description": DESCRIPTION,
        "type": "object",
        "required": ["spec"],
        VALIDATIONS: [{"rule": rule.cel, "message": rule.message} for rule in definition.NAME_RULES],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always `{resource.API_VERSION}`."},
            "kind": {"type": "string", "description": f"Always `{definition.KIND}`."},
            "metadata": {"type": "object"},
            "spec": structural(LLMBatchSpec),
            "status": status,
        },
    }


def printer_columns() -> list[Schema]:
    """What `kubectl get llmbatch` shows; columns of priority 1 only with `-o wide`."""
    return [
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Progress", "type": "string", "jsonPath": ".status.progress"},
        {"name": "Failed", "type": "integer", "jsonPath": ".status.rows.failed"},
        {"name": "Rows/s", "type": "number", "jsonPath": ".status.rowsPerSecond"},
        {"name": "ETA", "type": "string", "jsonPath": ".status.eta"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "GPU-seconds", "type": "number", "jsonPath": ".status.gpuSeconds", "priority": 1},
        {
            "name": "Message",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Reconciling")].message',
            "priority": 1,
        },
    ]
