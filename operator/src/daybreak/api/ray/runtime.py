"""What a person asks for of all Ray pods of a workload, and of the head."""

import re
from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.pods.pod_template import PodMetadata, PodTemplate
from daybreak.api.ray.cache import CompileCache
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.kubernetes_types import (
    EnvVar,
    LocalObjectReference,
    NamedVolume,
    Toleration,
    VolumeMount,
    list_by,
)
from daybreak.api.schema.scalar_types import Duration, Labels, ObjectName, Quantity

_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?=-|$)")
_IMAGES_OF_RAY = tuple(f"rayproject/{name}" for name in ("ray", "ray-llm", "ray-ml"))
"""Repositories whose tags begin with the version of Ray."""


class HeadResources(ApiModel):
    """What the head pod asks of its node."""

    cpu: Quantity = "1"
    """Cores to request; there is no limit."""
    memory: Quantity = "4Gi"
    """Memory, request and limit."""


class Head(ApiModel):
    """The Ray head pod: it schedules and routes, and runs no model."""

    resources: HeadResources = Field(default_factory=HeadResources)
    """Cores and memory."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels that its node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """Taints that it tolerates."""
    volumes: Annotated[list[NamedVolume], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """More volumes for the head pod. It reads no weights, so those of models stay off it."""
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("mountPath")
    )
    """Where those volumes appear."""
    pod_template: PodTemplate | None = None
    """What to add to the head pod."""


class RayPods(ApiModel):
    """The Ray pods of a workload: the fields that every kind with a Ray cluster has."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image of the Ray pods. Unset: the operator's default, for GPUs if the workload asks for some."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the kubelet pulls the image."""
    image_pull_secrets: Annotated[list[LocalObjectReference], Field(max_length=8)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Secrets for pulling images."""
    ray_version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", max_length=16)] | None = None
    """Version of Ray in the image. Unset: what the tag of an image of Ray's own says
    (`rayproject/ray-llm:X.Y.Z…`), else the version that the operator was built for when the image was first
    used."""
    head: Head = Field(default_factory=Head)
    """The head pod: it schedules and routes, and runs no model. Of an application, it takes requests, and
    imports the code to build the application."""
    env: Annotated[list[EnvVar], Field(max_length=64)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Environment of every Ray container."""
    volumes: Annotated[list[NamedVolume], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """More volumes for the worker pods. The head has `head.volumes`."""
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("mountPath")
    )
    """Where those volumes appear."""
    service_account_name: ObjectName | None = None
    """A ServiceAccount of one's own, for workload identity. Unset: Daybreak makes one without rights."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of the pods."""
    idle_timeout: Duration = "60s"
    """How long a worker pod without work is kept before Ray's autoscaler removes it. A change of it needs new
    pods."""

    @property
    def stated_ray_version(self) -> str:
        """The version of Ray in the image, as far as the spec says it; empty: it does not."""
        if self.ray_version is not None:
            return self.ray_version
        repository, _, tag = (self.image or "").partition("@")[0].rpartition(":")
        found = _VERSION.match(tag)
        return found[0] if found and repository.endswith(_IMAGES_OF_RAY) else ""


class Runtime(RayPods):
    """The Ray pods of the service."""

    follow_defaults: bool = False
    """Whether a new operator's defaults, such as the image, are taken at once, which needs the accelerators
    twice for a while. Else what runs stays as it is until the service next sleeps, cannot start, or is
    changed in what needs new replicas or pods."""
    direct_ingress: bool = True
    """Whether replicas serve requests on a port of their own, in place of Serve's proxy and ingress on the
    head. These take only what comes while no replica is up, and not where replicas look at the fields of
    bodies themselves, as those of Daybreak's images do: such a request waits for a replica. The image must
    have the package `daybreak-runtime`, as Daybreak's images do. A change of it needs new pods."""
    metadata: PodMetadata | None = None
    """Labels and annotations of the RayService, which KubeRay hands on to each new RayCluster: a queue's
    name, for instance."""
    compile_cache: CompileCache | None = None
    """Keeps compiled kernels and what was tuned beyond the life of a worker pod, so that a wake need not
    compile again. Unset: for the life of a pod."""
