"""A service whose spec cannot be read, or that is being deleted: what its status said before stands."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import mapping, mappings, text, whole
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.llmservice.status import (
    AdapterState,
    AdapterStatus,
    HeadStatus,
    LLMServiceStatus,
    ModelState,
    ModelStatus,
)
from daybreak.kinds.llmservice.decide.caches import kept as kept_cache
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status.defaults import kept as kept_defaults
from daybreak.rollouts.record import kept as kept_rollout
from daybreak.workloads import report

MODEL_MESSAGE_LIMIT = 2000
"""Longest message of a model, in characters."""


def as_before(seen: Observed, reason: Reason, message: str) -> LLMServiceStatus:
    """The status of one that is being deleted, or cannot be read: what was there before stays."""
    before = seen.status
    held = any(whole(item.get("replicas")) for item in mappings(before.get("models")))
    common = report.as_before(seen, reason, message, active=held)
    asleep = text(before.get("asleep"))
    return LLMServiceStatus(
        **common.fields(),
        asleep=SleepDepth(asleep) if asleep in set(SleepDepth) else None,
        url=text(before.get("url")) or None,
        replicas=whole(before.get("replicas")),
        gpus=whole(before.get("gpus")),
        selector=text(before.get("selector")) or None,
        defaults=kept_defaults(before),
        rollout=kept_rollout(before),
        head=_head(mapping(before.get("head"))),
        models=[_kept(item) for item in mappings(before.get("models"))[:16] if text(item.get("name"))],
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
