"""The LLMBatch kind, and how a manifest becomes one."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ValidationError

from daybreak.api.common import names
from daybreak.api.common.base import readable
from daybreak.api.common.resource import GROUP, VERSION, Resource
from daybreak.api.llmbatch.spec import LLMBatchSpec
from daybreak.api.ray.workload import RayWorkload

KIND = "LLMBatch"
PLURAL = "llmbatches"
SINGULAR = "llmbatch"
CATEGORY = "daybreak"
LLM_BATCHES = Resource(GROUP, VERSION, KIND, PLURAL)

NAME_LIMIT = 38
"""Longest name of an LLMBatch: the ServiceAccount of its pods has 50 characters at most, see `names`."""
NAME_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Kueue's label: handed on to the RayJob, which Kueue then admits."""


@dataclass(frozen=True)
class NameRule:
    """A rule on `metadata.name`, kept by the API server (CEL) and by the operator (Python)."""

    cel: str
    message: str
    holds: Callable[[str], bool]


NAME_RULES = (
    NameRule(
        f"self.metadata.name.size() <= {NAME_LIMIT}",
        f"metadata.name may have at most {NAME_LIMIT} characters: other names are made of it",
        lambda name: len(name) <= NAME_LIMIT,
    ),
    NameRule(
        f"self.metadata.name.matches('{NAME_PATTERN}')",
        "metadata.name must be lower-case letters, digits and '-', begin with a letter and not end with '-'",
        lambda name: re.fullmatch(NAME_PATTERN, name) is not None,
    ),
)


class InvalidBatch(ValueError):
    """A spec that cannot be built; the message names each field and what it should be."""


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
        """Read a manifest as the API server gives it. Raises InvalidBatch."""
        metadata = manifest["metadata"]
        broken = [rule.message for rule in NAME_RULES if not rule.holds(metadata["name"])]
        if broken:
            raise InvalidBatch("; ".join(broken))
        try:
            spec = LLMBatchSpec.model_validate(manifest.get("spec") or {})
        except ValidationError as error:
            raise InvalidBatch(readable(error)) from error
        return cls(
            name=metadata["name"],
            namespace=metadata.get("namespace", "default"),
            uid=metadata.get("uid", ""),
            generation=metadata.get("generation", 0),
            queue=(metadata.get("labels") or {}).get(QUEUE_LABEL, ""),
            spec=spec,
        )

    @property
    def workload(self) -> RayWorkload:
        """What Ray is to run."""
        models = () if self.spec.model is None else (self.spec.model,)
        return RayWorkload(names.of_batch(self.name), models, self.spec.runtime, self.spec.replicas)
