"""Cache of a model's weights in a PersistentVolumeClaim (PVC): spec and status."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common import volume_names
from daybreak.api.pods.pod_template import PodTemplate
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalar_types import Labels, ObjectName, Quantity


class AccessMode(StrEnum):
    """Access mode of a PVC, by its Kubernetes name."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class ModelCache(ApiModel):
    """PVC that a Job fills with the weights once; worker pods then read them from it.

    The operator creates no worker pod before the weights are complete. Each source and revision has its
    own directory in the PVC. The Job runs in the Ray image, with `runtime.env` and the Ray pods'
    ServiceAccount. It also has the ConfigMaps, Secrets and other inputs that `runtime.volumes` and the
    model's `volumes` mount.
    """

    rules = (
        Rule(
            "has(self.claimName) != has(self.size)",
            "set either cache.claimName (an existing PVC) or cache.size (a PVC that Daybreak creates)",
            lambda self: (self.claim_name is None) != (self.size is None),
        ),
        Rule(
            "!has(self.claimName) || (!has(self.storageClassName) && !has(self.accessMode))",
            "cache.storageClassName and cache.accessMode require cache.size, not cache.claimName",
            lambda self: (
                self.claim_name is None or (self.storage_class_name is None and self.access_mode is None)
            ),
        ),
    )

    claim_name: ObjectName | None = None
    """Name of a PVC in the service's namespace. Several models and services may share it, if several nodes
    can mount it for writing."""
    size: Quantity | None = None
    """Size of the PVC that Daybreak creates for this model. The PVC is deleted with the LLMService."""
    storage_class_name: ObjectName | None = None
    """StorageClass of the PVC that Daybreak creates. Defaults to the cluster's default."""
    access_mode: AccessMode | None = None
    """Access mode of the PVC that Daybreak creates. Defaults to `ReadWriteMany`, for pods on several
    nodes. `ReadWriteOnce` is enough if all pods of the model run on one node."""
    node_selector: Labels | None = None
    """Labels that the Job's node must have. With `ReadWriteOnce`, defaults to `accelerator.nodeSelector`,
    because such a volume often cannot leave the zone in which it was created. Otherwise defaults to none."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that the Job's pod tolerates. With `ReadWriteOnce`, defaults to `accelerator.tolerations`;
    otherwise to none."""

    pod_template: PodTemplate | None = None
    """Additions to the Job's pod. The Job's container is called `fill`. Its `resources` in the template
    replace Daybreak's, which have no CPU limit."""

    def claim(self, service: str, model: str) -> str:
        """Return the name of the PVC for a model of a service."""
        return self.claim_name or volume_names.cache_claim(service, model)


class CompileCache(ApiModel):
    """PVC for the compilation results of engine starts, which outlive the pods."""

    claim_name: ObjectName
    """Name of a PVC in the service's namespace. Every worker pod mounts it, and each model has its own
    directory in it. If worker pods run on several nodes, all of them must be able to write to it
    (`ReadWriteMany`)."""


class CachePhase(StrEnum):
    """Phase of the copy of a model's weights."""

    PENDING = "Pending"
    """No Job runs yet."""
    FILLING = "Filling"
    """The Job is copying the weights."""
    COMPLETE = "Complete"
    """All files are in the PVC, and worker pods read them."""
    FAILED = "Failed"
    """The last attempt failed; the model's message states the cause. Daybreak retries with growing pauses."""


class CacheStatus(ApiModel):
    """State of the copy of a model's weights in a PVC."""

    phase: CachePhase
    """Phase of the copy."""
    claim: str
    """Name of the PVC."""
    claim_uid: str | None = None
    """UID of the PVC, if Daybreak created it. Daybreak fills another PVC of that name again."""
    path: str
    """Directory of this source and revision in the PVC."""
    revision: str | None = None
    """Commit of the copied weights, if the source is `hf://`."""
    bytes: int | None = None
    """Size of the weights in bytes. Absent until the source reports it."""
    copied: int | None = None
    """Number of bytes copied so far, during a copy. Updated at each percent, at most every 10 seconds."""
    percent: int | None = None
    """Copied part of the weights in percent, if the size is known."""
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time when the Job started."""
    completion_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time when the Job completed."""
