"""Move of requests to a second Ray cluster, as soon as every awake model has answered there.

Until then, the first cluster answers the requests of open gates, regardless of the second one. Held requests
stay held: a model that has answered would be reachable only in the second cluster, where the other models are
not.
"""

from dataclasses import replace

from daybreak.api.gates.gate_state import GateState
from daybreak.api.llmservice.status import ModelState
from daybreak.kinds.llmservice.decide.fingerprint import Fingerprint
from daybreak.kinds.llmservice.decide.model_health import ModelHealth, judge
from daybreak.kinds.llmservice.decide.snapshot import Snapshot

_WAITS = "it has answered, and requests wait until every model of its Ray cluster has"


def judge_all(snapshot: Snapshot) -> tuple[Snapshot, list[ModelHealth]]:
    """Assess every model, and return the snapshot too: without the first cluster when requests move."""
    models = [judge(snapshot, model) for model in snapshot.service.spec.models]
    if not snapshot.first:
        return snapshot, models
    if all(_has_answered(snapshot, model) for model in models if _must_answer(snapshot, model)):
        return replace(snapshot, first=""), models
    return snapshot, [_meanwhile(snapshot, model) for model in models]


def _must_answer(snapshot: Snapshot, model: ModelHealth) -> bool:
    """Return True if requests wait for the model: not if it sleeps, or waits for capacity during a wake."""
    if model.state is ModelState.ASLEEP or model.queued:
        return False
    return model.has_room or not snapshot.wakes_from_sleep(model.name)


def _has_answered(snapshot: Snapshot, model: ModelHealth) -> bool:
    answered = Fingerprint.parse(model.answered or "")
    return model.answering and answered is not None and answered.same(Fingerprint.now(snapshot.ray))


def _meanwhile(snapshot: Snapshot, model: ModelHealth) -> ModelHealth:
    """Return the assessment of a model as clients observe it until requests move."""
    if model.state is ModelState.ASLEEP:
        return model
    gate = snapshot.before.gates.get(model.name)
    if gate is not None and gate.state is GateState.OPEN:
        return replace(model, answering=True, state=ModelState.UPDATING)
    if not model.answering:
        return model
    return replace(model, answering=False, state=ModelState.STARTING, doing=_WAITS)
