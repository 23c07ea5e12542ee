"""Values in the spec and status of a route that gateways evaluate."""

from enum import StrEnum

COUNTED = "external."
"""Prefix of the name of an external host in request counts. No service has a name with this prefix."""


class BackendKind(StrEnum):
    """Kinds of objects that can serve a model of a route."""

    LLM_SERVICE = "LLMService"
    """An LLMService."""
    MODEL_SERVER = "ModelServer"
    """A ModelServer that implements the OpenAI API."""


class Asleep(StrEnum):
    """Handling of the share of a sleeping backend."""

    WAKE = "Wake"
    """The backend keeps its share. A request for it wakes it and is held until then."""
    SKIP = "Skip"
    """The other backends receive its share while one of them is awake. If all sleep, a request wakes one."""
