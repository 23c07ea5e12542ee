"""Spec of all Ray pods of a workload, and of the Ray head."""

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
"""Image repositories with tags that begin with the Ray version."""


class HeadResources(ApiModel):
    """Resources that the head pod requests."""

    cpu: Quantity = "1"
    """CPU request; there is no limit."""
    memory: Quantity = "4Gi"
    """Memory request and limit."""


class Head(ApiModel):
    """Ray head pod. It schedules and routes, and runs no model."""

    resources: HeadResources = Field(default_factory=HeadResources)
    """CPUs and memory of the head pod."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels that the head pod's node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """Taints that the head pod tolerates."""
    volumes: Annotated[list[NamedVolume], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Additional volumes for the head pod. It reads no weights, so volumes of models are not added to it."""
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("mountPath")
    )
    """Mounts of the additional volumes."""
    pod_template: PodTemplate | None = None
    """Additions to the head pod."""


class RayPods(ApiModel):
    """Ray pods of a workload: the fields that every kind with a Ray cluster has."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image of the Ray pods. Defaults to the operator's default Ray image, for GPUs if the workload
    requests some."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Policy by which the kubelet pulls the image."""
    image_pull_secrets: Annotated[list[LocalObjectReference], Field(max_length=8)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Secrets for pulling images."""
    ray_version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", max_length=16)] | None = None
    """Version of Ray in the image. Defaults to the version in the tag of an official Ray image
    (`rayproject/ray-llm:X.Y.Z…`). Otherwise defaults to the Ray version of the operator that first
    used the image."""
    head: Head = Field(default_factory=Head)
    """Ray head pod. It schedules and routes, and runs no model. The head of an application receives
    requests, and imports the code to build the application."""
    env: Annotated[list[EnvVar], Field(max_length=64)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Environment variables of every Ray container."""
    volumes: Annotated[list[NamedVolume], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Additional volumes for the worker pods. The head has `head.volumes`."""
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("mountPath")
    )
    """Mounts of the additional volumes."""
    service_account_name: ObjectName | None = None
    """Custom ServiceAccount, for workload identity. Defaults to a ServiceAccount without permissions, which
    Daybreak creates."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of the pods."""
    idle_timeout: Duration = "60s"
    """Idle time before Ray's autoscaler removes a worker pod. A change requires new pods."""

    @property
    def stated_ray_version(self) -> str:
        """Return the Ray version of the image that the spec states, or an empty string if none."""
        if self.ray_version is not None:
            return self.ray_version
        repository, _, tag = (self.image or "").partition("@")[0].rpartition(":")
        found = _VERSION.match(tag)
        return found[0] if found and repository.endswith(_IMAGES_OF_RAY) else ""


class Runtime(RayPods):
    """Ray pods of the service."""

    follow_defaults: bool = False
    """If true, the service adopts a new operator's defaults, such as the image, immediately. This needs
    the accelerators twice for a while. If false, running pods stay unchanged until the service next
    sleeps, cannot start, or has a change that requires new replicas or pods."""
    direct_ingress: bool = True
    """If true, replicas serve requests on a direct port, instead of Serve's proxy and ingress on the head.
    The proxy and the ingress then serve only requests that arrive while no replica is up. If replicas
    inspect the fields of bodies themselves, as in Daybreak's images, such requests wait for a replica
    instead. The image must contain the package `daybreak-runtime`, as Daybreak's images do. A change
    requires new pods."""
    metadata: PodMetadata | None = None
    """Labels and annotations of the RayService, such as the name of a queue. KubeRay copies them to each
    new RayCluster."""
    compile_cache: CompileCache | None = None
    """Cache for compiled kernels and tuning results that outlives worker pods, so that a wake need not
    compile again. If unset, they last as long as a pod."""
