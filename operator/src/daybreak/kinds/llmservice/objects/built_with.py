"""Record of a RayService's build: the operator's defaults, and the user's settings.

An annotation of the RayService contains the record, as JSON. From it, a new operator knows whether the
running RayService was built with other defaults, and how to build the same one again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from daybreak import versions
from daybreak.api.common import names
from daybreak.api.common.canonical import digest
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.common.unstructured import at, mapping, mappings, text, whole
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.ray.model import Model
from daybreak.platform import Platform
from daybreak.ray.cluster_config import cluster_digest
from daybreak.ray.serve.serve_config import configuration

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class BuiltWith:
    """Record of a RayService's build."""

    operator: str
    """Version of the operator; empty for an operator that left no record."""
    image: str
    """Image of the worker pods."""
    head_image: str
    """Image of the head."""
    ray_version: str
    """Version of Ray in the RayService."""
    assigned_users: bool
    """True if the platform chose the pods' users."""
    wishes: str
    """Digest of the user's settings whose change needs new replicas or pods."""
    cluster: str
    """Digest of the Ray cluster's configuration, numbers aside."""
    spec: str
    """Digest of the whole spec, as far as it shapes the RayService. A different digest marks a later
    change."""
    running: Mapping[str, int]
    """Minimum number of replicas with which the Ray cluster started, by model, if it exceeds the spec."""
    configuration: str
    """Digest of the part of Serve's configuration whose change restarts replicas."""

    @classmethod
    def of(cls, ray_service: Manifest) -> "BuiltWith | None":
        """Return the record of a RayService, or None if it has none."""
        annotations = at(ray_service, "metadata", "annotations")
        try:
            found = mapping(json.loads(text(annotations.get(names.BUILT_WITH_ANNOTATION)) or "null"))
        except ValueError:
            return None
        if not text(found.get("cluster")):
            return None
        return cls(
            operator=text(found.get("operator")),
            image=text(found.get("image")),
            head_image=text(found.get("headImage")) or text(found.get("image")),
            ray_version=text(found.get("rayVersion")),
            assigned_users=found.get("assignedUsers") is True,
            wishes=text(found.get("wishes")),
            cluster=text(found.get("cluster")),
            spec=text(found.get("spec")),
            running={name: whole(count) for name, count in mapping(found.get("running")).items()},
            configuration=text(annotations.get(names.CONFIGURATION_ANNOTATION)),
        )

    def annotations(self) -> dict[str, str]:
        """Return the record as annotations of a RayService."""
        record = {to_camel(name): value for name, value in asdict(self).items() if name != "configuration"}
        return {
            names.CONFIGURATION_ANNOTATION: self.configuration,
            names.BUILT_WITH_ANNOTATION: json.dumps(record, sort_keys=True),
        }

    def same(self, other: "BuiltWith") -> bool:
        """Return True if pods and replicas are the same as in the other record."""
        return (self.cluster, self.configuration) == (other.cluster, other.configuration)


def built_with(
    svc: LLMService, platform: Platform, cluster: Manifest, running: Mapping[str, int]
) -> BuiltWith:
    """Return the record of a RayService that this operator builds."""
    return BuiltWith(
        operator=versions.DAYBREAK,
        image=platform.image_of(svc.workload),
        head_image=platform.head_image_of(svc.workload),
        ray_version=text(cluster.get("rayVersion")),
        assigned_users=platform.assigned_users,
        wishes=wishes(svc),
        cluster=cluster_digest(cluster),
        spec=spec_digest(svc),
        running=dict(running),
        configuration=configuration(svc.workload),
    )


def adopted(svc: LLMService, ray_service: Manifest) -> BuiltWith:
    """Return the record of a RayService that an operator without records built, from its manifest."""
    cluster = at(ray_service, "spec", "rayClusterConfig")
    pod = at(cluster, "headGroupSpec", "template", "spec")
    containers = mappings(pod.get("containers"))
    image = text(containers[0].get("image")) if containers else ""
    return BuiltWith(
        operator="",
        image=image,
        head_image=image,
        ray_version=text(cluster.get("rayVersion")),
        assigned_users="runAsUser" not in at(pod, "securityContext"),
        wishes=wishes(svc),
        cluster=cluster_digest(cluster),
        spec=spec_digest(svc),
        running={},
        configuration=text(at(ray_service, "metadata", "annotations").get(names.CONFIGURATION_ANNOTATION)),
    )


def spec_digest(svc: LLMService) -> str:
    """Return a digest of all settings of Ray pods and Serve, as the user has written them."""
    models = [
        model.model_dump(mode="json", by_alias=True, exclude_defaults=True) for model in svc.spec.models
    ]
    return digest([models, _runtime(svc), svc.spec.replicas])


def wishes(svc: LLMService) -> str:
    """Return a digest of the part of the spec whose change needs new replicas or pods.

    The digest contains only the settings that the user has written. Therefore a field that a new operator
    adds, or a default that it changes, is no change of the spec. Settings that are applied in place are
    omitted.
    """
    return digest({"runtime": _runtime(svc), "models": [_wishes(model) for model in svc.spec.models]})


def _runtime(svc: LLMService) -> dict[str, Any]:
    found: dict[str, Any] = svc.spec.runtime.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"metadata", "follow_defaults"}
    )
    return found


def _wishes(model: Model) -> dict[str, Any]:
    found: dict[str, Any] = model.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"replicas", "serve", "lora"}
    )
    # The pod template shapes a Job, which runs before the pods.
    found.get("cache", {}).pop("podTemplate", None)
    # This Serve setting determines how a pod stops, see `workers`.
    found |= model.serve.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, include={"graceful_shutdown_timeout"}
    )
    if model.lora is not None:
        # Adapters change in place, except for the volumes and tokens that only a pod can provide.
        lora = model.lora.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"adapters"})
        brought = [
            [adapter.source if _of_pods(adapter.source) else "", _plain(adapter.token)]
            for adapter in model.lora.adapters
            if _of_pods(adapter.source) or adapter.token is not None
        ]
        found["lora"] = {**lora, "pods": brought}
    return found


def _of_pods(source: str) -> bool:
    return ModelSource.parse(source).scheme in (Scheme.CLAIM, Scheme.IMAGE)


def _plain(value: Any) -> Any:
    return None if value is None else value.model_dump(mode="json", by_alias=True)
