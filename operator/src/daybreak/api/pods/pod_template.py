"""What a person writes of a pod beside the fields that LLMService has for it.

The fields that are used most, and the lists that several managers may share, stand here by name; the rest of
a pod is handed on as it is written. All of it is checked against `pod_schema`, and what Daybreak itself owns
is refused by `pod_rules`.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.kubernetes_types import NamedVolume, Toleration, list_by
from daybreak.api.schema.scalar_types import Annotations, Labels, ObjectName
from daybreak.api.schema.scalars import DNS_LABEL

RAY_CONTAINER = "ray"
"""What a person may call the Ray container, whatever its name in the pod is."""
AUTOSCALER_CONTAINER = "autoscaler"
"""Container of Ray's autoscaler, which KubeRay adds to the head's pod."""
FILL_CONTAINER = "fill"
"""Container of the Job that fills a claim with weights."""

_AS_WRITTEN = ConfigDict(extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
_Name = Annotated[str, Field(pattern=rf"^{DNS_LABEL}$", max_length=63)]


class PodMetadata(ApiModel):
    """Labels and annotations beside those that Daybreak and KubeRay set."""

    labels: Labels = Field(default_factory=dict)
    """More labels."""
    annotations: Annotations = Field(default_factory=dict)
    """More annotations."""


class NamedEntry(ApiModel):
    """An entry of a list that is known by its name; the rest is handed to Kubernetes as it is written."""

    model_config = _AS_WRITTEN

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Its name."""


class MountEntry(ApiModel):
    """Where a volume appears in a container; everything else is handed to Kubernetes as it is written."""

    model_config = _AS_WRITTEN

    mount_path: Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/[^:]+$")]
    """Absolute path in the container."""


class PodContainer(ApiModel):
    """A container of the pod; everything else of it is handed to Kubernetes as it is written."""

    model_config = _AS_WRITTEN

    name: _Name
    """Its name: `ray` for the Ray container, `autoscaler` for the autoscaler's in the head's pod, `fill` for
    that of a cache's Job, which the fields here then add to; any other name is a container more."""
    env: Annotated[list[NamedEntry], Field(max_length=64)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Environment variables."""
    volume_mounts: Annotated[list[MountEntry], Field(max_length=64)] = Field(
        default_factory=list, json_schema_extra=list_by("mountPath")
    )
    """Where volumes appear in it."""


class SpreadConstraint(ApiModel):
    """How the pods spread over nodes or zones; everything else is handed to Kubernetes as it is written."""

    model_config = _AS_WRITTEN

    topology_key: Annotated[str, Field(min_length=1, max_length=317)]
    """Label of nodes, such as `topology.kubernetes.io/zone`."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """Whether a pod that would break it waits."""


class PodSpec(ApiModel):
    """The pod: any field that KubeRay's pod templates have, by Kubernetes' own names."""

    model_config = _AS_WRITTEN

    containers: Annotated[list[PodContainer], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """What to add to the Ray container (`ray`), such as `securityContext`, `env` or more `resources`; and
    more containers."""
    init_containers: Annotated[list[PodContainer], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Containers that run before. With `restartPolicy: Always` they go on beside the others."""
    volumes: Annotated[list[NamedVolume], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """More volumes."""
    image_pull_secrets: Annotated[list[NamedEntry], Field(max_length=8)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """More Secrets for pulling images."""
    resource_claims: Annotated[list[NamedEntry], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Claims on devices (DRA) beside the accelerators, such as network cards. Those of the accelerators are
    `accelerator.claim`."""
    node_selector: Labels = Field(default_factory=dict)
    """More labels that a node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """More taints that the pod tolerates."""
    topology_spread_constraints: Annotated[list[SpreadConstraint], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("topologyKey", "whenUnsatisfiable")
    )
    """How the pods spread."""
    runtime_class_name: ObjectName | None = None
    """RuntimeClass, such as `nvidia`."""
    scheduler_name: ObjectName | None = None
    """Scheduler that places the pod. Unset: the cluster's default."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of these pods; it takes precedence over `runtime.priorityClassName`."""


class PodTemplate(ApiModel):
    """What to add to a pod that Daybreak makes: maps are merged, entries of lists by their names. A field
    that Daybreak itself must own is refused with its name."""

    metadata: PodMetadata = Field(default_factory=PodMetadata)
    """Labels and annotations."""
    spec: PodSpec = Field(default_factory=PodSpec)
    """The pod."""

    def written(self) -> dict[str, Any]:
        """The pod's spec as it was written, with nothing that says nothing."""
        plain: dict[str, Any] = self.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return plain

    def container(self, *names: str) -> dict[str, Any]:
        """Return the container of one of these names as it was written; empty if there is none."""
        return next((each for each in self.written().get("containers", ()) if each["name"] in names), {})

    def without(self, name: str) -> "PodTemplate":
        """Return the template without the container of a name."""
        containers = [each for each in self.spec.containers if each.name != name]
        return self.model_copy(update={"spec": self.spec.model_copy(update={"containers": containers})})
