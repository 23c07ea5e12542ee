"""What to do next about a service, and what to say of it: a pure function of what is seen.

Every decision starts from what is there, never from what was done before, so it may be taken any number of
times. The only memory is the service's own status: when a condition turned, and as what a model answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import at, parse_time, text
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.gates import idle_policy, room
from daybreak.gates.rolling import drain_left, rolled_out
from daybreak.gates.schedule import next_change
from daybreak.gates.sleep_policy import node_wait
from daybreak.gates.state_machine import SleepState, step
from daybreak.gates.state_machine import look_again as machine_look_again
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.rollout import decide_rollout
from daybreak.kinds.llmservice.decide.second_cluster import judge_all
from daybreak.kinds.llmservice.decide.snapshot import Snapshot, snapshot_of
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status import carried_over, conditions, gated_conditions, report
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt
from daybreak.rollouts.machine import RolloutState
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
    sleep_states: Mapping[str, SleepState]
    """Sleep and wake of each model; empty without a gateway."""
    requeue_after: timedelta | None
    """When to look again although nothing has happened; None: not before something happens."""


def decide(seen: Observed) -> Decision:
    """Decide on a service."""
    service = seen.subject
    if at(seen.manifest, "metadata").get("deletionTimestamp"):
        return Decision(False, (), carried_over.terminating(seen), {}, None)
    misfits = _misfits(seen)
    blocked = _blocked(seen)
    if service is None:
        return Decision(False, (), carried_over.unreadable(seen, blocked), {}, None)
    # What is not asked has no answer, even if one was on its way.
    snapshot = snapshot_of(seen, service, misfits or (), seen.answers if blocked is None else ())
    snapshot, models = judge_all(snapshot)
    rollout, rollout_again = seen.rollout, None
    if blocked is None or blocked.reason is Reason.REFUSED:
        stalled = conditions.to_act_on(snapshot, models, None)
        rollout, rollout_again = decide_rollout(seen, snapshot, models, stalled)
    sleep_states, look_again = _sleep_states(seen, snapshot, models, blocked, rollout)
    look_again = _earliest(look_again, rollout_again)
    status = report.status(seen, snapshot, models, misfits, blocked, sleep_states, rollout)
    for gate in status.gate.models if status.gate is not None else ():
        idle_again = idle_policy.look_again(seen.gates.get(gate.name), gate)
        room_again = room.look_again(gate, seen.now)
        look_again = _earliest(look_again, node_wait(gate, seen.now), idle_again, room_again)
    if blocked is not None:
        return Decision(False, (), status, sleep_states, look_again)
    asked = tuple(model.name for model in models if model.ask)
    return Decision(True, asked, status, sleep_states, _earliest(_again(snapshot, models), look_again))


def _sleep_states(
    seen: Observed,
    snapshot: Snapshot,
    models: list[ModelHealth],
    blocked: Problem | None,
    rollout: RolloutState | None,
) -> tuple[dict[str, SleepState], timedelta | None]:
    """Sleep and wake of each model from here on, and when to look again for their sake."""
    if seen.gateway is None:
        return {}, None
    states, look_again = {}, None
    for model in models:
        traffic, policy = seen.gateway.of(model.name), seen.sleep_policies[model.name]
        health = report.health(snapshot, model, models, blocked, seen.longest_shutdown)
        if rollout is not None and seen.asked_for is not None:
            on_failure = seen.asked_for.spec.rollout.on_failure
            health = rolled_out(health, rollout, on_failure)
        state = step(seen.sleep_states[model.name], policy, traffic, health, seen.now)
        windows = policy.sleep.schedule if policy.sleep is not None else ()
        look_again = _earliest(
            look_again,
            machine_look_again(state, policy, traffic, seen.now),
            gated_conditions.look_again(state, traffic, seen.now),
            next_change(windows, seen.now),
            seen.turn(model.name).look_again,
            drain_left(state, health.drain, seen.now, preempted=health.preempted),
        )
        states[model.name] = state
    return states, look_again


def _earliest(*pauses: timedelta | None) -> timedelta | None:
    return min((pause for pause in pauses if pause is not None), default=None)


def _blocked(seen: Observed) -> Problem | None:
    """What keeps the spec from being applied; None when nothing does."""
    if seen.subject is None or seen.problems:
        said = "; ".join(seen.problems) or "the spec cannot be read"
        return Problem(Reason.INVALID_SPEC, said, stalled=True)
    if not seen.kuberay_installed:
        return Problem(
            Reason.KUBERAY_MISSING,
            "the API server knows no RayService (ray.io/v1): install KubeRay, or its CRDs",
            stalled=True,
        )
    if seen.foreign:
        return Problem(Reason.NAME_TAKEN, _taken(seen.subject, seen.foreign), stalled=True)
    if seen.refusal:
        return Problem(
            Reason.REFUSED, f"the API server refused {excerpt(seen.refusal, _REFUSAL_LIMIT)}", stalled=True
        )
    return None


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
    if seen.subject is None or seen.nodes is None or not seen.fit_checked:
        return None
    return fit.fit(seen.subject.workload, seen.nodes)


def _again(snapshot: Snapshot, models: list[ModelHealth]) -> timedelta | None:
    """Nobody tells when a model could answer: it must be asked again, ever more seldom."""
    pauses = [model.wait for model in models if model.wait is not None]
    if any(model.ask for model in models):
        shortest, longest = ASK_AGAIN
        pauses.append(min(max(_silent_for(snapshot) / _PATIENCE, shortest), longest))
    return min(pauses) if pauses else None


def _silent_for(snapshot: Snapshot) -> timedelta:
    """For how long the service has been unready because a model did not answer when it was asked."""
    ready = snapshot.before.ready
    since = parse_time(text(ready.get("lastTransitionTime")))
    if since is None or ready.get("reason") != Reason.NOT_ANSWERING:
        return timedelta(0)
    return snapshot.now - since
