"""Reference from a route to a model: the object that serves the model, and the model's name."""

from daybreak.api.common import names
from daybreak.api.llmroute.words import BackendKind
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.scalar_types import ModelName, ObjectName


class ModelReference(ApiModel):
    """Model that requests are sent to."""

    kind: BackendKind = BackendKind.LLM_SERVICE
    """Kind of `service`: `LLMService` or `ModelServer`. A ModelServer must implement the OpenAI API."""
    service: ObjectName
    """Name of an LLMService or ModelServer in the route's namespace."""
    model: ModelName
    """Name of a model of the service, or of one of its LoRA adapters. Requests reach the service under this
    name."""

    def is_same(self, other: "ModelReference") -> bool:
        """Return True if both references are to the same model."""
        return self._parts() == other._parts()

    @property
    def counted_as(self) -> str:
        """Return the name in request counts: `SERVICE/MODEL`, with the gateways' name of the service."""
        return f"{names.of_owner(self.kind, self.service)}/{self.model}"

    @property
    def words(self) -> str:
        """Return the kind and name of the object that serves the model, for display."""
        return f"{self.kind} {self.service}"

    def _parts(self) -> tuple[str, str, str]:
        return self.kind, self.service, self.model
