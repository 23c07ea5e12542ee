"""Decide about an LLMService and describe it, without applying the decision in between."""

from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.kinds.llmservice.functions import FUNCTIONS
from daybreak.kinds.llmservice.observe.observed import Observed
from tests.unit import decisions

Decision = decisions.Decision[LLMServiceStatus]


def decide(observed: Observed) -> Decision:
    """Decide about an observed service, and describe it."""
    return decisions.decided(observed, FUNCTIONS)
