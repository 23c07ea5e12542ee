"""Check that a service's models answer, regardless of the gateway."""

from collections.abc import Sequence

from daybreak.api.common import names
from daybreak.api.common.conditions import Reason, ShortCondition
from daybreak.api.llmservice.status import ModelState
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.problems import in_the_way
from daybreak.kinds.llmservice.decide.snapshot import Snapshot


def answers(snapshot: Snapshot, models: Sequence[ModelHealth]) -> ShortCondition:
    """Return a condition value: whether every model answers, and the progress of the others."""
    silent = [model for model in models if not model.answering]
    if not silent:
        return "True", Reason.SERVING, _answering(snapshot, models)
    if all(model.state is ModelState.ASLEEP for model in models):
        return "False", Reason.ASLEEP, "scaled to 0: nothing answers until spec.replicas is above 0"
    found = in_the_way(snapshot, silent)
    if found:
        return "False", found[0].reason, "; ".join(problem.message for problem in found)
    doing = "; ".join(f"model {model.name}: {model.doing}" for model in silent)
    if snapshot.waited_for:
        return "Unknown", Reason.FILLING_CACHE, doing
    lost = snapshot.before.ready.get("status") in ("True", "False")
    if lost and snapshot.ray.active and not snapshot.ray.ready:
        return "False", Reason.PROBE_FAILED, "the Ray cluster takes no requests at the moment"
    if snapshot.ray.upgrading or any(model.state is ModelState.UPDATING for model in silent):
        return "Unknown", Reason.UPDATING, doing
    return "Unknown", Reason.PROGRESSING, doing


def _answering(snapshot: Snapshot, models: Sequence[ModelHealth]) -> str:
    url = names.url(snapshot.service.name, snapshot.service.namespace)
    return f"{'every model answers' if len(models) > 1 else 'the model answers'} at {url}"
