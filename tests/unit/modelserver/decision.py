"""Decide on a ModelServer and describe it, with nothing applied between."""

from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.kinds.modelserver.decide.decision import WAYS
from daybreak.kinds.modelserver.observe.observed import Observed
from tests.unit import decisions

Decision = decisions.Decision[ModelServerStatus]


def decide(seen: Observed) -> Decision:
    """Decide on one, and describe it."""
    return decisions.decided(seen, WAYS)
