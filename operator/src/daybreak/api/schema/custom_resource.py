"""Definitions that all of Daybreak's kinds share: name rules, and the CustomResourceDefinition."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from daybreak.api.schema import resource
from daybreak.api.schema.resource import Resource
from daybreak.api.schema.scalars import VALIDATIONS
from daybreak.api.schema.structural import Schema, forget_defaults, structural

CATEGORY = "daybreak"
NAME_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""DNS label that begins with a letter, as required for the name of a Service."""


@dataclass(frozen=True)
class NameRule:
    """Rule for `metadata.name`, enforced by the API server (CEL) and by the operator (Python)."""

    cel: str
    message: str
    holds: Callable[[str], bool]


def at_most(limit: int, why: str) -> NameRule:
    """Return a rule that limits a name to a number of characters."""
    return NameRule(
        f"self.metadata.name.size() <= {limit}",
        f"metadata.name may have at most {limit} characters: {why}",
        lambda name: len(name) <= limit,
    )


def dns_label(why: str = "") -> NameRule:
    """Return a rule that requires a DNS label that begins with a letter."""
    message = (
        "metadata.name must be lower-case letters, digits and '-', begin with a letter and not end with '-'"
    )
    return NameRule(
        f"self.metadata.name.matches('{NAME_PATTERN}')",
        message + (f", {why}" if why else ""),
        lambda name: re.fullmatch(NAME_PATTERN, name) is not None,
    )


def broken(rules: Sequence[NameRule], name: str) -> str:
    """Return the messages of the rules that a name breaks, or an empty string if none."""
    return "; ".join(rule.message for rule in rules if not rule.holds(name))


SCALE: Schema = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
"""Scale subresource of a kind with `spec.replicas`, for `kubectl scale`."""


def ready(field: str) -> str:
    """Return the path of a printer column to a field of the condition `Ready`."""
    return f'.status.conditions[?(@.type=="Ready")].{field}'


def crd(
    kind: Resource,
    schema: Schema,
    printer_columns: Sequence[Schema],
    *,
    short_names: Sequence[str] = (),
    scale: Schema | None = None,
) -> Schema:
    """Return a CustomResourceDefinition.

    Args:
        kind: Kind to define; its singular is its name in lower case.
        schema: Schema of the whole object.
        printer_columns: Columns that `kubectl get` shows.
        short_names: Other names for kubectl.
        scale: Paths of the `scale` subresource, or None if there is none.
    """
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        **({"shortNames": list(short_names)} if short_names else {}),
        "categories": [CATEGORY],
    }
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": list(printer_columns),
        "subresources": {"status": {}, **({"scale": scale} if scale else {})},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def object_schema(
    kind: Resource,
    description: str,
    rules: Sequence[NameRule],
    spec: type[BaseModel],
    status: type[BaseModel],
) -> Schema:
    """Return the structural schema of a whole object."""
    message = structural(status)
    forget_defaults(message)
    return {
        "description": description,
        "type": "object",
        "required": ["spec"],
        VALIDATIONS: [{"rule": rule.cel, "message": rule.message} for rule in rules],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always `{resource.API_VERSION}`."},
            "kind": {"type": "string", "description": f"Always `{kind.kind}`."},
            "metadata": {"type": "object"},
            "spec": structural(spec),
            "status": message,
        },
    }


@dataclass(frozen=True)
class Definition:
    """CustomResourceDefinition of a kind, generated from its models.

    Attributes:
        resource: The kind.
        description: Description of an object of the kind, in one sentence.
        name_rules: Rules for names of objects.
        spec: Model of the spec.
        status: Model of the status.
        columns: Columns that `kubectl get` shows; those of priority 1 only with `-o wide`.
        short_names: Other names for kubectl.
        scale: The `scale` subresource, or None if there is none.
    """

    resource: Resource
    description: str
    name_rules: Sequence[NameRule]
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: Sequence[Schema]
    short_names: Sequence[str] = ()
    scale: Schema | None = None

    def manifest(self) -> Schema:
        """Return the whole CustomResourceDefinition."""
        return crd(self.resource, self.schema(), self.columns, short_names=self.short_names, scale=self.scale)

    def schema(self) -> Schema:
        """Return the structural schema of the whole object."""
        return object_schema(self.resource, self.description, self.name_rules, self.spec, self.status)
