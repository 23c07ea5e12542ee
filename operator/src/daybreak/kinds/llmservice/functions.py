"""Decisions and status of an LLMService for the shared loop."""

from daybreak.api.llmservice.resource import KIND
from daybreak.kinds.llmservice.decide.rollout import course
from daybreak.kinds.llmservice.decide.view import view_of
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status import report
from daybreak.problems.missing_kuberay import missing_kuberay
from daybreak.problems.problem import Problem
from daybreak.workloads.kind_functions import KindFunctions


def _hinders(observed: Observed) -> Problem | None:
    return missing_kuberay(installed=observed.kuberay_installed)


FUNCTIONS = KindFunctions(
    KIND,
    view_of,
    report.status,
    report.as_before,
    hinders=_hinders,
    course=course,
)
