"""Decide on a ModelServer and describe it without applying anything."""

from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.kinds.modelserver.functions import FUNCTIONS
from daybreak.kinds.modelserver.observe.observed import Observed
from tests.unit import decisions

Decision = decisions.Decision[ModelServerStatus]


def decide(observed: Observed) -> Decision:
    """Decide on a server, and describe it."""
    return decisions.decided(observed, FUNCTIONS)
