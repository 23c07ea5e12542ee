"""A service whose spec cannot be read, or that is being deleted: what its status said before stands."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.unstructured import at, mapping, mappings, text, whole
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.llmservice.status import (
    AdapterState,
    AdapterStatus,
    HeadStatus,
    LLMServiceStatus,
    ModelState,
    ModelStatus,
)
from daybreak.gates.ledger import savings_before
from daybreak.gates.sleep_policy import kept_gate
from daybreak.kinds.llmservice.decide.caches import kept as kept_cache
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status.condition_list import Conditions, Truth
from daybreak.kinds.llmservice.status.defaults import kept as kept_defaults
from daybreak.rollouts.record import kept as kept_rollout

MODEL_MESSAGE_LIMIT = 2000
"""Longest message of a model, in characters."""


def as_before(seen: Observed, reason: Reason, message: str) -> LLMServiceStatus:
    """The status of one that is being deleted, or cannot be read: what was there before stays."""
    stalled = reason is Reason.INVALID_SPEC
    said = message
    before = seen.status
    conditions = Conditions(seen)
    conditions.set(ConditionType.READY, "False", reason, said)
    held = any(whole(item.get("replicas")) for item in mappings(before.get("models")))
    active: Truth = "True" if held else "False"
    conditions.set(ConditionType.ACTIVE, active, reason, said)
    conditions.set(ConditionType.SCHEDULABLE, "Unknown", reason, said)
    conditions.set(ConditionType.RECONCILING, "False" if stalled else "True", reason, said)
    conditions.set(ConditionType.STALLED, "True" if stalled else "False", reason, said)
    metadata = at(seen.manifest, "metadata")
    asleep = text(before.get("asleep"))
    return LLMServiceStatus(
        observed_generation=max(0, whole(metadata.get("generation"))),
        phase=Phase.FAILED if stalled else Phase.DRAINING,
        phase_since=text(before.get("phaseSince")) or None,
        asleep=SleepDepth(asleep) if asleep in set(SleepDepth) else None,
        gate=kept_gate(before),
        url=text(before.get("url")) or None,
        replicas=whole(before.get("replicas")),
        gpus=whole(before.get("gpus")),
        savings=savings_before(before),
        selector=text(before.get("selector")) or None,
        defaults=kept_defaults(before),
        rollout=kept_rollout(before),
        head=_head(mapping(before.get("head"))),
        models=[_kept(item) for item in mappings(before.get("models"))[:16] if text(item.get("name"))],
        conditions=conditions.made,
    )


def _head(item: Mapping[str, Any]) -> HeadStatus | None:
    reason = text(item.get("reason"))
    return (
        HeadStatus(reason=Reason(reason), message=text(item.get("message")))
        if reason in set(Reason)
        else None
    )


def _kept(item: Mapping[str, Any]) -> ModelStatus:
    """What was said of a model, as far as it can be read."""
    state = text(item.get("state"))
    return ModelStatus(
        name=text(item.get("name")),
        state=ModelState(state) if state in set(ModelState) else ModelState.PENDING,
        replicas=whole(item.get("replicas")),
        gpus=whole(item.get("gpus")),
        reason=Reason(reason) if (reason := text(item.get("reason"))) in set(Reason) else None,
        message=text(item.get("message"))[:MODEL_MESSAGE_LIMIT] or None,
        lora=[_adapter(each) for each in mappings(item["lora"])[:64]] if "lora" in item else None,
        answered=text(item.get("answered")) or None,
        errors_since=text(item.get("errorsSince")) or None,
        cache=kept_cache(item),
    )


def _adapter(item: Mapping[str, Any]) -> AdapterStatus:
    state = text(item.get("state"))
    return AdapterStatus(
        name=text(item.get("name")),
        state=AdapterState(state) if state in set(AdapterState) else AdapterState.PENDING,
        message=text(item.get("message"))[:1000] or None,
        id=text(item.get("id")),
    )
