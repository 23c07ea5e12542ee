"""Decide on a ServeApplication and describe it without applying anything."""

from daybreak.api.serveapplication.status import ServeApplicationStatus
from daybreak.kinds.serveapplication.functions import FUNCTIONS
from daybreak.kinds.serveapplication.observe.observed import Observed
from tests.unit import decisions

Decision = decisions.Decision[ServeApplicationStatus]


def decide(observed: Observed) -> Decision:
    """Decide on an application, and describe it."""
    return decisions.decided(observed, FUNCTIONS)
