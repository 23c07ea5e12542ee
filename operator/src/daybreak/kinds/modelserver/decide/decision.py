"""What to do next about a ModelServer, and what to say of it: a pure function of what is seen."""

from datetime import timedelta

from daybreak.api.modelserver.definition import KIND
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.gates.one_gate import decision
from daybreak.kinds.modelserver.decide import autoscaling
from daybreak.kinds.modelserver.decide.rollout import rolled
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.status import report

Decision = decision.Decision[ModelServerStatus]


def decide(seen: Observed) -> Decision:
    """Decide on a ModelServer."""
    return decision.decide(seen, _WAYS)


def view_of(seen: Observed) -> View:
    """How one is, that can be read."""
    assert seen.subject is not None  # noqa: S101 - checked by whoever decides
    return View(seen, seen.subject)


def _look_again(view: View, status: ModelServerStatus) -> timedelta | None:
    return autoscaling.LOOK if status.autoscaling is not None and view.seen.gateway is not None else None


_WAYS = decision.Ways(KIND, view_of, report.status, report.as_before, rolled=rolled, look_again=_look_again)
