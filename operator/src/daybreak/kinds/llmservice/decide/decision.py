"""What to do next about a service, and what to say of it: a pure function of what is seen.

Every decision starts from what is there, never from what was done before, so it may be taken any number of
times. The only memory is the service's own status: when a condition turned, and as what a model answered.
"""

from dataclasses import dataclass
from datetime import timedelta

from daybreak.api.common import names
from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import at, mapping, parse_time, text
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.gates.schedule import next_change
from daybreak.gates.sleep_policy import course_or_start, wake_under_way, wish
from daybreak.gates.state_machine import Course, step
from daybreak.gates.state_machine import look_again as machine_look_again
from daybreak.kinds.llmservice.decide.model_health import ModelView, judge
from daybreak.kinds.llmservice.decide.snapshot import Look, look_at
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status import carried_over, conditions, gated_conditions, report
from daybreak.problems.problem import Trouble
from daybreak.problems.redact import excerpt
from daybreak.scheduling import fit

ASK_AGAIN = (timedelta(seconds=2), timedelta(minutes=2))
"""Shortest and longest pause before models that have not answered are asked again."""
_REFUSAL_LIMIT = 2000
"""How much is told of what the API server says, in characters: it names every field that is wrong."""
_PATIENCE = 8
"""The pause is this fraction of the time for which a model has been silent."""


@dataclass(frozen=True)
class Decision:
    """What to do, and what to say."""

    apply: bool
    """Whether the service's objects shall be made what they should be."""
    ask: tuple[str, ...]
    """Models to be asked for an answer: past the gate, where there is one."""
    status: LLMServiceStatus
    course: Course | None
    """Sleep and wake; None without a gateway."""
    requeue_after: timedelta | None
    """When to look again although nothing has happened; None: not before something happens."""


def decide(seen: Observed) -> Decision:
    """Decide on a service."""
    service = seen.service
    if at(seen.manifest, "metadata").get("deletionTimestamp"):
        return Decision(False, (), carried_over.terminating(seen), None, None)
    misfits = _misfits(seen)
    blocked = _blocked(seen, misfits)
    if service is None:
        return Decision(False, (), carried_over.unreadable(seen, blocked), None, None)
    # What is not asked has no answer, even if one was on its way.
    look = look_at(seen, service, misfits or (), seen.answers if blocked is None else ())
    models = [judge(look, model) for model in service.spec.models]
    course, look_again = _course(seen, look, models, blocked)
    status = report.status(seen, look, models, misfits, blocked, course)
    if blocked is not None:
        return Decision(False, (), status, course, look_again)
    if misfits:
        look_again = _earliest(look_again, look.before.node_wait)
    asked = tuple(model.name for model in models if model.ask)
    return Decision(True, asked, status, course, _earliest(_again(look, models), look_again))


def _course(
    seen: Observed, look: Look, models: list[ModelView], blocked: Trouble | None
) -> tuple[Course | None, timedelta | None]:
    """Sleep and wake from here on, and when to look again for their sake."""
    if seen.gateway is None:
        return None, None
    traffic, wished = (
        seen.gateway.traffic,
        wish(seen.manifest, look.service.spec.sleep, look.service.spec.state, seen.now),
    )
    backend = report.backend(look, models, blocked)
    course = step(course_or_start(seen.status, seen.now), wished, traffic, backend, seen.now)
    windows = wished.sleep.schedule if wished.sleep is not None else ()
    again = machine_look_again(course, wished, traffic, seen.now)
    said_again = gated_conditions.look_again(course, traffic, seen.now)
    return course, _earliest(again, said_again, next_change(windows, seen.now))


def _earliest(*pauses: timedelta | None) -> timedelta | None:
    return min((pause for pause in pauses if pause is not None), default=None)


def _blocked(seen: Observed, misfits: tuple[fit.Misfit, ...] | None) -> Trouble | None:
    """What keeps the spec from being applied; None when nothing does."""
    if seen.service is None or seen.problems:
        said = "; ".join(seen.problems) or "the spec cannot be read"
        return Trouble(Reason.INVALID_SPEC, said, stalled=True)
    if not seen.kuberay_installed:
        return Trouble(
            Reason.KUBERAY_MISSING,
            "the API server knows no RayService (ray.io/v1): install KubeRay, or its CRDs",
            stalled=True,
        )
    if seen.foreign:
        return Trouble(Reason.NAME_TAKEN, _taken(seen.service, seen.foreign), stalled=True)
    if misfits and not mapping(seen.ray_service) and not _need_not_fit(seen):
        return Trouble(Reason.NO_NODE_FITS, conditions.misfit_message(misfits), stalled=True)
    if seen.refusal:
        return Trouble(
            Reason.REFUSED, f"the API server refused {excerpt(seen.refusal, _REFUSAL_LIMIT)}", stalled=True
        )
    return None


def _need_not_fit(seen: Observed) -> bool:
    """Whether the service sleeps, or wakes from it.

    The nodes may have been given back with it, and whoever adds nodes does so for pods that are there.
    """
    if seen.gateway is None:
        return False
    return course_or_start(seen.status, seen.now).asleep is not None or wake_under_way(seen.status)


def _taken(service: LLMService, foreign: tuple[str, ...]) -> str:
    objects = ", ".join(foreign)
    verb = "exists" if len(foreign) == 1 else "exist"
    return (
        f"{objects} already {verb} in {service.namespace} and "
        f"{'belongs' if len(foreign) == 1 else 'belong'} to somebody else: "
        f"remove {'it' if len(foreign) == 1 else 'them'}, or give the LLMService another name"
    )


def _misfits(seen: Observed) -> tuple[fit.Misfit, ...] | None:
    """What fits on no node; None when that is not known, or not asked."""
    if seen.service is None or seen.problems or seen.nodes is None or fit_check_off(seen):
        return None
    return fit.fit(seen.service.workload, seen.nodes)


def fit_check_off(seen: Observed) -> bool:
    """Whether the service says that nodes come when they are asked for."""
    return (
        text(at(seen.manifest, "metadata", "annotations").get(names.FIT_CHECK_ANNOTATION)).lower()
        == names.FIT_CHECK_OFF
    )


def _again(look: Look, models: list[ModelView]) -> timedelta | None:
    """Nobody tells when a model could answer: it must be asked again, ever more seldom."""
    pauses = [model.wait for model in models if model.wait is not None]
    if any(model.ask for model in models):
        shortest, longest = ASK_AGAIN
        pauses.append(min(max(_silent_for(look) / _PATIENCE, shortest), longest))
    return min(pauses) if pauses else None


def _silent_for(look: Look) -> timedelta:
    """For how long the service has been unready because a model did not answer when it was asked."""
    ready = look.before.ready
    since = parse_time(text(ready.get("lastTransitionTime")))
    if since is None or ready.get("reason") != Reason.NOT_ANSWERING:
        return timedelta(0)
    return look.now - since
