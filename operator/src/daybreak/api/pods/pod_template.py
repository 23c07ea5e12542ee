"""Pod fields that users write in addition to the fields of LLMService.

The most used fields, and the lists that several managers may share, are declared here by name. The rest of
a pod is passed on as written. `pod_schema` checks all of it, and `pod_rules` rejects fields that Daybreak
itself owns.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.kubernetes_types import NamedVolume, Toleration, list_by
from daybreak.api.schema.scalar_types import Annotations, Labels, ObjectName
from daybreak.api.schema.scalars import DNS_LABEL

RAY_CONTAINER = "ray"
"""Name for the Ray container in a template, independent of its name in the pod."""
AUTOSCALER_CONTAINER = "autoscaler"
"""Container of Ray's autoscaler, which KubeRay adds to the head pod."""
FILL_CONTAINER = "fill"
"""Container of the Job that fills a PVC with weights."""

_AS_WRITTEN = ConfigDict(extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
_Name = Annotated[str, Field(pattern=rf"^{DNS_LABEL}$", max_length=63)]


class PodMetadata(ApiModel):
    """Labels and annotations in addition to those that Daybreak and KubeRay set."""

    labels: Labels = Field(default_factory=dict)
    """Additional labels."""
    annotations: Annotations = Field(default_factory=dict)
    """Additional annotations."""


class NamedEntry(ApiModel):
    """List entry with its name as key. Other fields are passed to Kubernetes as written."""

    model_config = _AS_WRITTEN

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the entry."""


class MountEntry(ApiModel):
    """Mount of a volume in a container. Other fields are passed to Kubernetes as written."""

    model_config = _AS_WRITTEN

    mount_path: Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/[^:]+$")]
    """Absolute path in the container."""


class PodContainer(ApiModel):
    """Container of the pod. Other fields are passed to Kubernetes as written."""

    model_config = _AS_WRITTEN

    name: _Name
    """Name of the container. The fields here add to Daybreak's or KubeRay's container if the name is
    `ray`, `autoscaler` (in the head pod), or `fill` (in a cache Job). Any other name adds a container."""
    env: Annotated[list[NamedEntry], Field(max_length=64)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Environment variables of the container."""
    volume_mounts: Annotated[list[MountEntry], Field(max_length=64)] = Field(
        default_factory=list, json_schema_extra=list_by("mountPath")
    )
    """Mounts of volumes in the container."""


class SpreadConstraint(ApiModel):
    """Spread of the pods over nodes or zones. Other fields are passed to Kubernetes as written."""

    model_config = _AS_WRITTEN

    topology_key: Annotated[str, Field(min_length=1, max_length=317)]
    """Node label, such as `topology.kubernetes.io/zone`."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """Treatment of a pod that would violate the constraint: `DoNotSchedule` makes it wait,
    `ScheduleAnyway` does not."""


class PodSpec(ApiModel):
    """Pod spec: any field of KubeRay's pod templates, by its Kubernetes name."""

    model_config = _AS_WRITTEN

    containers: Annotated[list[PodContainer], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Additions to the Ray container (`ray`), such as `securityContext`, `env` or more `resources`, and
    additional containers."""
    init_containers: Annotated[list[PodContainer], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Containers that run before the others. With `restartPolicy: Always`, they keep running alongside the
    others."""
    volumes: Annotated[list[NamedVolume], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Additional volumes."""
    image_pull_secrets: Annotated[list[NamedEntry], Field(max_length=8)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Additional Secrets for pulling images."""
    resource_claims: Annotated[list[NamedEntry], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """ResourceClaims (DRA) for devices other than the accelerators, such as network cards.
    `accelerator.claim` is for the accelerators."""
    node_selector: Labels = Field(default_factory=dict)
    """Additional labels that a node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """Additional taints that the pod tolerates."""
    topology_spread_constraints: Annotated[list[SpreadConstraint], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("topologyKey", "whenUnsatisfiable")
    )
    """Topology spread constraints of the pods."""
    runtime_class_name: ObjectName | None = None
    """RuntimeClass, such as `nvidia`."""
    scheduler_name: ObjectName | None = None
    """Scheduler that places the pod. Defaults to the cluster's default."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of these pods. Takes precedence over `runtime.priorityClassName`."""


class PodTemplate(ApiModel):
    """Additions to a pod that Daybreak creates.

    Maps are merged, and list entries are merged by their names. Daybreak rejects a field that it must own,
    and names it.
    """

    metadata: PodMetadata = Field(default_factory=PodMetadata)
    """Labels and annotations of the pod."""
    spec: PodSpec = Field(default_factory=PodSpec)
    """Spec of the pod."""

    def written(self) -> dict[str, Any]:
        """Return the pod's spec as written, without unset and default values."""
        plain: dict[str, Any] = self.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return plain

    def container(self, *names: str) -> dict[str, Any]:
        """Return the container with one of these names as written; empty if there is none."""
        return next((each for each in self.written().get("containers", ()) if each["name"] in names), {})

    def without(self, name: str) -> "PodTemplate":
        """Return the template without the container of a name."""
        containers = [each for each in self.spec.containers if each.name != name]
        return self.model_copy(update={"spec": self.spec.model_copy(update={"containers": containers})})
