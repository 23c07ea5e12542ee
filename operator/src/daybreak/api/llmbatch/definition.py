"""The LLMBatch kind, and how a manifest becomes one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from daybreak.api.common import names
from daybreak.api.llmbatch.spec import LLMBatchSpec
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.custom_object import identity, read_spec
from daybreak.api.schema.custom_resource import at_most, dns_label
from daybreak.api.schema.resource import GROUP, VERSION, Resource

KIND = "LLMBatch"
PLURAL = "llmbatches"
LLM_BATCHES = Resource(GROUP, VERSION, KIND, PLURAL)

NAME_LIMIT = 38
"""Longest name of an LLMBatch: the ServiceAccount of its pods has 50 characters at most, see `names`."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Kueue's label: handed on to the RayJob, which Kueue then admits."""

NAME_RULES = (at_most(NAME_LIMIT, "other names are made of it"), dns_label())


@dataclass(frozen=True)
class LLMBatch:
    """An LLMBatch as the operator works with it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    queue: str
    """Kueue's queue; empty: none."""
    spec: LLMBatchSpec

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Read a manifest as the API server gives it. Raises InvalidSpec."""
        return cls(
            **identity(manifest),
            queue=(manifest["metadata"].get("labels") or {}).get(QUEUE_LABEL, ""),
            spec=read_spec(manifest, NAME_RULES, LLMBatchSpec),
        )

    @property
    def owner(self) -> str:
        """What stands for it in labels, and in names of its objects."""
        return names.of_owner(KIND, self.name)

    @property
    def workload(self) -> RayWorkload:
        """What Ray is to run."""
        models = () if self.spec.model is None else (self.spec.model,)
        return RayWorkload(self.owner, models, self.spec.runtime, self.spec.replicas)
