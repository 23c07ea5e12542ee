"""Decide on a LLMService and describe it, with nothing applied between."""

from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.ways import WAYS
from tests.unit import decisions

Decision = decisions.Decision[LLMServiceStatus]


def decide(seen: Observed) -> Decision:
    """Decide on one, and describe it."""
    return decisions.decided(seen, WAYS)
