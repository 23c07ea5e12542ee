"""How a route names a model: by the object that serves it, and its own name."""

from daybreak.api.common import names
from daybreak.api.llmroute.words import BackendKind
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.scalar_types import ModelName, ObjectName


class ModelReference(ApiModel):
    """A model that requests are sent to."""

    kind: BackendKind = BackendKind.LLM_SERVICE
    """What `service` is: `LLMService` or `ModelServer`. A ModelServer must speak OpenAI's API."""
    service: ObjectName
    """An LLMService or ModelServer of the route's namespace."""
    model: ModelName
    """One of its models, or of their LoRA adapters. Requests come to it under this name."""

    def is_same(self, other: "ModelReference") -> bool:
        """Whether both are one model."""
        return self._parts() == other._parts()

    @property
    def counted_as(self) -> str:
        """What it is called where requests are counted: `SERVICE/MODEL`, the service as gateways name it."""
        return f"{names.of_owner(self.kind, self.service)}/{self.model}"

    @property
    def words(self) -> str:
        """The object that serves it, in words."""
        return f"{self.kind} {self.service}"

    def _parts(self) -> tuple[str, str, str]:
        return self.kind, self.service, self.model
