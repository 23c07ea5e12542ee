"""Result of a probe of a model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """Result of a probe of a model, past the gate or, without a gateway, at the model's address."""

    model: str
    answered: bool
    message: str = ""
    """Reason for a missing answer, in one sentence. Empty if the model answered."""
    erred: bool = False
    """True if the model responded with an error.

    False for a timeout, and for a response that the model has no capacity for another request.
    """
