"""What came of asking a model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """How a model answered when it was asked: past the gate if there is a gateway, else at its address."""

    model: str
    answered: bool
    message: str = ""
    """Why not, in one sentence; empty when it answered."""
    erred: bool = False
    """Whether something else came in place of an answer: not silence, and not that there is no room for one
    more question."""
