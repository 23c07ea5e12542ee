"""LLMBatch kind, and its construction from a manifest."""

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
"""Maximum length of the name of an LLMBatch. The name of its pods' ServiceAccount has at most 50 characters,
see `names`."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label that names the Kueue queue. The RayJob inherits it, and Kueue then admits the RayJob."""

NAME_RULES = (at_most(NAME_LIMIT, "other names are made of it"), dns_label())


@dataclass(frozen=True)
class LLMBatch:
    """LLMBatch as the operator uses it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    queue: str
    """Name of the Kueue queue, or empty if there is none."""
    spec: LLMBatchSpec

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Parse a manifest from the API server. Raises InvalidSpec."""
        return cls(
            **identity(manifest),
            queue=(manifest["metadata"].get("labels") or {}).get(QUEUE_LABEL, ""),
            spec=read_spec(manifest, NAME_RULES, LLMBatchSpec),
        )

    @property
    def owner(self) -> str:
        """Return the value that identifies the batch in labels and in names of its objects."""
        return names.of_owner(KIND, self.name)

    @property
    def workload(self) -> RayWorkload:
        """Return the workload that Ray runs for the batch."""
        models = () if self.spec.model is None else (self.spec.model,)
        return RayWorkload(self.owner, models, self.spec.runtime, self.spec.replicas)
