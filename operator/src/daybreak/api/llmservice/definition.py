"""Kind LLMService, and conversion from a manifest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from daybreak.api.common import names
from daybreak.api.gates.protocol import Protocol
from daybreak.api.gates.sleep import Sleep
from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.api.ray.model import Model
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.custom_object import identity, read_spec
from daybreak.api.schema.custom_resource import NameRule, at_most, dns_label
from daybreak.api.schema.scalars import seconds

SHORT_NAME = "llm"

RAY_SERVICE_NAME_LIMIT = 47
"""Maximum length of a RayService's name, in characters; KubeRay rejects longer names."""
NAME_LIMIT = 41
"""Maximum length of an LLMService's name, in characters: that of a RayService minus a suffix of six
characters."""
SCALED_TO_ZERO_IDLE = "30s"
"""Idle time before a model sleeps if its service was scaled to 0."""

NAME_RULES = (
    at_most(
        NAME_LIMIT, f"KubeRay allows a RayService {RAY_SERVICE_NAME_LIMIT}, and its name may need a suffix"
    ),
    dns_label("since a Service of that name is made"),
    NameRule(
        f"self.metadata.name != '{names.ROUTER}'",
        f"metadata.name must not be {names.ROUTER}: the address of all models of a namespace has that name",
        lambda name: name != names.ROUTER,
    ),
)


@dataclass(frozen=True)
class LLMService:
    """LLMService as the operator uses it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: LLMServiceSpec
    asleep: frozenset[str] = frozenset()
    """Names of models with released worker pods, for building objects."""

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Read a manifest from the API server.

        Raises InvalidSpec if the spec does not have the form of the API. `validation.problems` checks the
        rules across fields.
        """
        return cls(
            **identity(manifest),
            spec=read_spec(manifest, NAME_RULES, LLMServiceSpec),
        )

    @property
    def owner(self) -> str:
        """Return the value of the owner label of the service's objects."""
        return self.name

    @property
    def protocol(self) -> Protocol | None:
        """Return the API of the service's models, or None for the OpenAI API."""
        return None

    @property
    def workload(self) -> RayWorkload:
        """Return the workload that Ray runs."""
        spec = self.spec
        return RayWorkload(self.name, spec.models, spec.runtime, spec.replicas, self.asleep)

    def sleep_of(self, model: Model) -> Sleep | None:
        """Return the sleep settings of a model, or None if the model never sleeps by itself.

        The settings are those of `sleep`. A model with `replicas.min: 0` sleeps after its own delay: without
        `sleep`, or if it sets `downscaleToZeroDelay`. All models sleep shortly after the service was scaled
        to 0.
        """
        sleep, own = self.spec.sleep, model.replicas
        if self.spec.replicas == 0:
            return (sleep or Sleep()).model_copy(update={"after_idle": SCALED_TO_ZERO_IDLE})
        if self.spec.replicas is not None or own.min > 0:
            return sleep
        if sleep is None:
            return Sleep(after_idle=_at_least_a_second(own.downscale_to_zero_delay or own.downscale_delay))
        if own.downscale_to_zero_delay is None:
            return sleep
        return sleep.model_copy(update={"after_idle": _at_least_a_second(own.downscale_to_zero_delay)})

    @property
    def sleeps(self) -> Mapping[str, Sleep | None]:
        """Return the sleep settings of each model, by name.

        The name is also that of the gate. None means that the model never sleeps by itself.
        """
        return {model.name: self.sleep_of(model) for model in self.spec.models}

    def starts_asleep(self, gate: str) -> bool:
        """Return True if the model of a new service has no replica until its first request."""
        fixed = self.spec.replicas
        initial = {model.name: model.replicas.initial for model in self.spec.models}
        return (fixed if fixed is not None else initial.get(gate)) == 0


def _at_least_a_second(duration: str) -> str:
    return duration if seconds(duration) >= 1 else "1s"
