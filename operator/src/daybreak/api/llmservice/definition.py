"""The LLMService kind, and how a manifest becomes one."""

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
"""Longest name of a RayService: KubeRay refuses a longer one."""
NAME_LIMIT = 41
"""Longest name of an LLMService: a RayService's, with room for a suffix of six characters."""
SCALED_TO_ZERO_IDLE = "30s"
"""How long nobody must have asked a model of a service that was scaled to 0."""

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
    """An LLMService as the operator works with it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: LLMServiceSpec
    asleep: frozenset[str] = frozenset()
    """Models whose worker pods are given back, where objects are built."""

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Read a manifest as the API server gives it.

        Raises InvalidSpec when the spec does not have the form of the API. Rules across fields are
        `validation.problems`.
        """
        return cls(
            **identity(manifest),
            spec=read_spec(manifest, NAME_RULES, LLMServiceSpec),
        )

    @property
    def owner(self) -> str:
        """Value of the owner label of its objects."""
        return self.name

    @property
    def protocol(self) -> Protocol | None:
        """API that its models speak; None: OpenAI's."""
        return None

    @property
    def workload(self) -> RayWorkload:
        """What Ray is to run."""
        spec = self.spec
        return RayWorkload(self.name, spec.models, spec.runtime, spec.replicas, self.asleep)

    def sleep_of(self, model: Model) -> Sleep | None:
        """When a model gives its accelerators back; None: never by itself.

        By `sleep`, and where there is none a model with `replicas.min: 0` does so after its own delay. All do
        soon after the service was scaled to 0.
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
        """When each model sleeps, by its name, which is its gate's; None: never by itself."""
        return {model.name: self.sleep_of(model) for model in self.spec.models}

    def starts_asleep(self, gate: str) -> bool:
        """Return whether the model of a new service has no replica until a client asks it."""
        fixed = self.spec.replicas
        initial = {model.name: model.replicas.initial for model in self.spec.models}
        return (fixed if fixed is not None else initial.get(gate)) == 0


def _at_least_a_second(duration: str) -> str:
    return duration if seconds(duration) >= 1 else "1s"
