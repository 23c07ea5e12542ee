"""What a person asks for: the spec of an LLMService.

The models here are the one source of the CRD, of the JSON schema and of docs/api.md: a field's
docstring is its description there. Units and rules stand with the field.
"""

from typing import Annotated

from pydantic import Field

from daybreak.api.gates.access import Access
from daybreak.api.gates.rollout import Rollout
from daybreak.api.gates.sleep import Hold, Sleep, State
from daybreak.api.ray.model import Model
from daybreak.api.ray.runtime import Runtime
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import list_by


class LLMServiceSpec(ApiModel):
    """Models behind one OpenAI address."""

    rules = (
        Rule(
            "self.models.all(m, self.models.exists_one(n, n.name == m.name))",
            "every model needs a name of its own",
            lambda self: len({model.name for model in self.models}) == len(self.models),
        ),
        Rule(
            "self.models.all(m, m.accelerator.kind == self.models[0].accelerator.kind)",
            "all models of a service share one image: use one accelerator kind, or two services",
            lambda self: len({model.accelerator.kind for model in self.models}) == 1,
        ),
    )

    models: Annotated[list[Model], Field(min_length=1, max_length=16, json_schema_extra=list_by("name"))]
    """The models, each with worker pods and autoscaling of its own."""
    replicas: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Replicas of every model, fixed; what `kubectl scale` writes. Unset: each model's own `replicas`. At 0 a
    model sleeps as soon as nobody has asked for 30 seconds, and a request wakes one replica of it."""
    state: State | None = None
    """Keeps the service `Asleep` (requests are refused, and wake nothing) or `Awake`, whatever the traffic.
    The annotation `daybreak.dev/state` does the same and takes precedence. Unset: the traffic decides."""
    sleep: Sleep | None = None
    """When models give their accelerators back, each by itself. Unset: never, unless `replicas.min` is 0."""
    hold: Hold | None = None
    """How requests wait while it wakes."""
    access: Access | None = None
    """Who may use it. Unset: everybody who can reach its address."""
    rollout: Rollout = Field(default_factory=Rollout)
    """How changes reach running pods."""
    runtime: Runtime = Field(default_factory=Runtime)
    """The Ray pods."""
