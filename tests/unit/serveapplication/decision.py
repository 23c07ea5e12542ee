"""Decide on a ServeApplication and describe it, with nothing applied between."""

from daybreak.api.serveapplication.status import ServeApplicationStatus
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.kinds.serveapplication.ways import WAYS
from tests.unit import decisions

Decision = decisions.Decision[ServeApplicationStatus]


def decide(seen: Observed) -> Decision:
    """Decide on one, and describe it."""
    return decisions.decided(seen, WAYS)
