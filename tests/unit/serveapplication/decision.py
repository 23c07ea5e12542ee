"""Decide on a ServeApplication and describe it without applying anything."""

from daybreak.api.serveapplication.status import ServeApplicationStatus
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.kinds.serveapplication.ways import WAYS
from tests.unit import decisions

Decision = decisions.Decision[ServeApplicationStatus]


def decide(observed: Observed) -> Decision:
    """Decide on an application, and describe it."""
    return decisions.decided(observed, WAYS)
