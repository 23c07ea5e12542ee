"""Annotations of a RayService that record its inputs, from which the operator recognizes a change."""

from dataclasses import dataclass
from typing import Self

from daybreak.api.common import names
from daybreak.api.common.canonical import digest
from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.kinds.serveapplication.objects.pods import drain_seconds
from daybreak.kinds.serveapplication.objects.serve_config import configuration
from daybreak.rollouts.strategy import Change

_OF_PODS = {"code", "worker_groups", "accelerator", "runtime"}
"""Fields of a spec that change pods by themselves."""
_NOT_OF_PODS = {"engine", "replicas", "serve", "trust_remote_code"}
"""Fields of an LLM that are in Ray Serve's configuration and do not change pods."""


@dataclass(frozen=True)
class Marks:
    """Digests of the user's settings; empty for an unknown one."""

    pods: str
    """Digest of the settings whose change needs other pods, files of the code aside."""
    files: str
    """Digest of the ConfigMap with the code."""
    replicas: str
    """Digest of the settings whose change restarts replicas."""

    @classmethod
    def of(cls, ray_service: Manifest | None) -> Self:
        """Return the marks of a RayService, or of a RayCluster that was created for it."""
        annotations = at(ray_service, "metadata", "annotations")
        marked = (names.WISHES_ANNOTATION, names.CODE_ANNOTATION, names.CONFIGURATION_ANNOTATION)
        pods, files, replicas = (text(annotations.get(name)) for name in marked)
        return cls(pods, files, replicas)

    @classmethod
    def desired(cls, application: ServeApplication, files: str) -> Self:
        """Return the desired marks of an application's RayService."""
        return cls(_wishes(application), files, digest(configuration(application)))

    @property
    def annotations(self) -> dict[str, str]:
        """Return the marks as annotations."""
        found = {names.WISHES_ANNOTATION: self.pods, names.CONFIGURATION_ANNOTATION: self.replicas}
        return found | ({names.CODE_ANNOTATION: self.files} if self.files else {})

    def to(self, other: "Marks") -> Change:
        """Return the change from these marks to others. Unknown files count as unchanged."""
        files = bool(self.files and other.files and self.files != other.files)
        pods = files or self.pods != other.pods
        return Change(pods=pods, restarts=pods or self.replicas != other.replicas)


def _wishes(application: ServeApplication) -> str:
    """Return a digest of the part of the spec that shapes the pods."""
    spec = application.spec
    plain = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=_OF_PODS)
    sizes = [
        group.pod.model_dump(mode="json", by_alias=True, exclude={"replicas"}) for group in application.groups
    ]
    llms = [
        model.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_NOT_OF_PODS)
        for model in spec.llms
    ]
    found = {**plain, "pods": sizes, "drain": drain_seconds(application)}
    return digest(found | ({"llms": llms} if llms else {}))
