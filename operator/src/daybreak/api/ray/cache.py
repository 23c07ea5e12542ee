"""A model's weights kept in a PersistentVolumeClaim: what is asked for, and what has come of it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common import volume_names
from daybreak.api.pods.pod_template import PodTemplate
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalar_types import Labels, ObjectName, Quantity


class AccessMode(StrEnum):
    """How a claim may be mounted, by Kubernetes' names."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class ModelCache(ApiModel):
    """A claim that a Job fills with the weights once; worker pods then read them there.

    No worker pod is made before the weights are complete. Each source and revision has a directory of its
    own in the claim. The Job runs in the Ray image, with `runtime.env`, the Ray pods' ServiceAccount, and the
    ConfigMaps, Secrets and other inputs that `runtime.volumes` and the model's `volumes` mount."""

    rules = (
        Rule(
            "has(self.claimName) != has(self.size)",
            "cache has either claimName (a claim that is there) or size (a claim that Daybreak makes)",
            lambda self: (self.claim_name is None) != (self.size is None),
        ),
        Rule(
            "!has(self.claimName) || (!has(self.storageClassName) && !has(self.accessMode))",
            "cache.storageClassName and cache.accessMode belong to a claim that Daybreak makes",
            lambda self: (
                self.claim_name is None or (self.storage_class_name is None and self.access_mode is None)
            ),
        ),
    )

    claim_name: ObjectName | None = None
    """A claim of the service's namespace. Several models and services may share it, where it can be mounted
    for writing by several nodes."""
    size: Quantity | None = None
    """Size of a claim that Daybreak makes for this model. It goes with the LLMService."""
    storage_class_name: ObjectName | None = None
    """StorageClass of that claim. Unset: the cluster's default."""
    access_mode: AccessMode | None = None
    """How that claim can be mounted. Unset: `ReadWriteMany`, by pods on several nodes. `ReadWriteOnce` is
    enough where all pods of the model stand on one node."""
    node_selector: Labels | None = None
    """Labels that the Job's node must have. Unset: with `ReadWriteOnce` those of `accelerator.nodeSelector`,
    since such a volume often cannot leave the zone in which it was made; else none."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that the Job's pod tolerates. Unset: with `ReadWriteOnce` those of `accelerator.tolerations`;
    else none."""

    pod_template: PodTemplate | None = None
    """What to add to the Job's pod. Its container is called `fill`; `resources` there replace Daybreak's, of
    which none is a CPU limit."""

    def claim(self, service: str, model: str) -> str:
        """Name of the claim, of a model of a service."""
        return self.claim_name or volume_names.cache_claim(service, model)


class CompileCache(ApiModel):
    """A claim in which what engines compile at their start outlives the pods."""

    claim_name: ObjectName
    """A claim of the service's namespace, mounted by every worker pod; each model has a directory of its own
    in it. With worker pods on several nodes it must be one that they all can write (`ReadWriteMany`)."""


class CachePhase(StrEnum):
    """One word on the copy of a model's weights."""

    PENDING = "Pending"
    """No Job runs yet."""
    FILLING = "Filling"
    """The Job copies."""
    COMPLETE = "Complete"
    """All files are there; worker pods read them."""
    FAILED = "Failed"
    """The last try failed; the model's message says why. It is tried again, with growing pauses."""


class CacheStatus(ApiModel):
    """The copy of a model's weights in its claim."""

    phase: CachePhase
    """One word on it."""
    claim: str
    """Name of the claim."""
    claim_uid: str | None = None
    """Its uid, where Daybreak has made it: another claim of that name is filled anew."""
    path: str
    """Directory of this source and revision in the claim."""
    revision: str | None = None
    """Commit that was copied, of an hf:// source."""
    bytes: int | None = None
    """Size of the weights, as soon as the source has told it."""
    copied: int | None = None
    """How many of them are there, while they are being copied: at each percent, at most every ten seconds."""
    percent: int | None = None
    """The same in percent, where the size is known."""
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the Job began."""
    completion_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the Job was done."""
