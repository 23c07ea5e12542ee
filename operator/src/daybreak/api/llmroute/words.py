"""What the status of a route says of its backends in words that the gateway goes by."""

from enum import StrEnum

COUNTED = "external."
"""With it begins what an external host is called where requests are counted: no service has such a name."""


class BackendKind(StrEnum):
    """What may serve a model that a route leads to."""

    LLM_SERVICE = "LLMService"
    """An LLMService."""
    MODEL_SERVER = "ModelServer"
    """A ModelServer that speaks OpenAI's API."""


class Asleep(StrEnum):
    """What becomes of the share of a backend that sleeps."""

    WAKE = "Wake"
    """It keeps its share: such a request wakes it, and is held until then."""
    SKIP = "Skip"
    """The others share it, as long as one of them is awake. Where all sleep, a request wakes one."""
