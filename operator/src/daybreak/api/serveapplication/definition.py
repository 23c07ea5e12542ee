"""The kind ServeApplication, and how a manifest becomes one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from daybreak.api.common import names
from daybreak.api.gates.protocol import Protocol
from daybreak.api.gates.sleep import Sleep
from daybreak.api.ray.runtime import Runtime
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.custom_object import identity, read_spec
from daybreak.api.schema.custom_resource import NameRule, at_most, dns_label
from daybreak.api.serveapplication.groups import Group, groups
from daybreak.api.serveapplication.resource import KIND
from daybreak.api.serveapplication.spec import ServeApplicationSpec

SHORT_NAME = "sapp"

NAME_LIMIT = 35
"""Maximum length of a name. KubeRay keeps 50 characters of the name of the head's ServiceAccount; see
`names`."""
NAME_RULES = (
    at_most(NAME_LIMIT, "other names are made of it"),
    dns_label("since a Service of that name is made"),
    NameRule(
        f"self.metadata.name != '{names.ROUTER}'",
        f"metadata.name must not be {names.ROUTER}: the address of all models of a namespace has that name",
        lambda name: name != names.ROUTER,
    ),
)


@dataclass(frozen=True)
class ServeApplication:
    """ServeApplication as the operator uses it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: ServeApplicationSpec

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Read a manifest from the API server.

        Rules across fields are in `validation.problems`.

        Raises:
            InvalidSpec: The name or the spec is invalid.
        """
        return cls(**identity(manifest), spec=read_spec(manifest, NAME_RULES, ServeApplicationSpec))

    @property
    def owner(self) -> str:
        """Return the text that identifies the application in labels and in names of its objects."""
        return names.of_owner(KIND, self.name)

    @property
    def sleeps(self) -> Mapping[str, Sleep | None]:
        """Return the sleep policy by the name of the one gate, or None if it never sleeps by itself."""
        return {self.name: self.spec.sleep}

    def starts_asleep(self, gate: str) -> bool:
        """Return False, because a new application starts awake."""
        return False

    @property
    def protocol(self) -> Protocol:
        """Return the protocol of the application."""
        return self.spec.protocol

    @cached_property
    def groups(self) -> Sequence[Group]:
        """Return the worker groups of the application."""
        return groups(self.spec)

    @cached_property
    def workload(self) -> RayWorkload:
        """Return the pods of the application: those of its LLMs and of its worker groups.

        Each worker group is a model, and each pod of the group is a replica of that model.
        """
        message = self.spec.runtime.model_dump(by_alias=False, exclude_unset=True)
        runtime = Runtime(**message, direct_ingress=False)
        pods = [group.pod for group in self.groups]
        return RayWorkload(self.owner, (*pods, *self.spec.llms), runtime)
