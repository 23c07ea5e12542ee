"""Spec of an LLMService.

The models here are the only source of the CRD, of the JSON schema and of docs/api.md: a field's docstring is
its description there. Units and rules are part of the field.
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
    """Models behind one OpenAI-compatible address."""

    rules = (
        Rule(
            "self.models.all(m, self.models.exists_one(n, n.name == m.name))",
            "names of models must be unique",
            lambda self: len({model.name for model in self.models}) == len(self.models),
        ),
        Rule(
            "self.models.all(m, m.accelerator.kind == self.models[0].accelerator.kind)",
            "all models of a service share one image: use one accelerator kind, or two services",
            lambda self: len({model.accelerator.kind for model in self.models}) == 1,
        ),
    )

    models: Annotated[list[Model], Field(min_length=1, max_length=16, json_schema_extra=list_by("name"))]
    """Models of the service, each with separate worker pods and autoscaling."""
    replicas: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Fixed number of replicas of every model, which `kubectl scale` writes. At 0, a model sleeps after 30
    seconds without a request, and a request wakes one replica of the model. Defaults to each model's own
    `replicas`."""
    state: State | None = None
    """Forced state of the service, regardless of traffic: `Asleep` (requests are rejected, and wake no model)
    or `Awake`. The annotation `daybreak.dev/state` has the same effect and takes precedence. If unset, the
    traffic decides."""
    sleep: Sleep | None = None
    """Sleep settings, which each model applies separately. If unset, models never sleep, unless
    `replicas.min` is 0."""
    hold: Hold | None = None
    """Settings for requests that the gateway holds while the service wakes."""
    access: Access | None = None
    """Clients that may use the service. Defaults to all clients that can reach its address."""
    rollout: Rollout = Field(default_factory=Rollout)
    """Rollout of changes to running pods."""
    runtime: Runtime = Field(default_factory=Runtime)
    """Settings of the Ray pods."""
