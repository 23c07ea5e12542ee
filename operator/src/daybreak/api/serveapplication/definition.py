"""The ServeApplication kind, and how a manifest becomes one."""

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
"""Longest name: KubeRay keeps 50 characters of the name of the head's ServiceAccount, see `names`."""
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
    """A ServeApplication as the operator works with it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: ServeApplicationSpec

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Read a manifest as the API server gives it. Raises InvalidSpec.

        Rules across fields are `validation.problems`.
        """
        return cls(**identity(manifest), spec=read_spec(manifest, NAME_RULES, ServeApplicationSpec))

    @property
    def owner(self) -> str:
        """What stands for it in labels, and in names of its objects."""
        return names.of_owner(KIND, self.name)

    @property
    def sleeps(self) -> Mapping[str, Sleep | None]:
        """When it sleeps, by the name of its one gate; None: never by itself."""
        return {self.name: self.spec.sleep}

    def starts_asleep(self, gate: str) -> bool:
        """Return False: a new one starts awake."""
        return False

    @property
    def protocol(self) -> Protocol:
        """What it speaks."""
        return self.spec.protocol

    @cached_property
    def groups(self) -> Sequence[Group]:
        """Its worker groups."""
        return groups(self.spec)

    @cached_property
    def workload(self) -> RayWorkload:
        """Its pods: those of its LLMs, and each worker group as a model whose replica is one pod of it."""
        said = self.spec.runtime.model_dump(by_alias=False, exclude_unset=True)
        runtime = Runtime(**said, direct_ingress=False)
        pods = [group.pod for group in self.groups]
        return RayWorkload(self.owner, (*pods, *self.spec.llms), runtime)
