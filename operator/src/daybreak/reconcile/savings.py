"""Counting what sleep has saved and what wakes have taken, when a status says so for the first time."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from daybreak.api.llmservice import LLMService
from daybreak.kube.cache import Key
from daybreak.lifecycle.needs import accelerators_awake
from daybreak.lifecycle.reading import mapping, parse_time, text, whole
from daybreak.reconcile import metrics


def count(
    key: Key, service: LLMService, before: Mapping[str, Any], after: Mapping[str, Any], now: datetime
) -> None:
    """Count what lies between two statuses of a service."""
    if before.get("asleep") and not after.get("asleep"):
        since = parse_time(text(before.get("phaseSince"))) or now
        saved = max(0.0, (now - since).total_seconds()) * accelerators_awake(service)
        metrics.SAVED.labels(key.namespace, key.name).inc(saved)
    wake = mapping(after.get("wake"))
    if wake.get("seconds") is not None and mapping(before.get("wake")).get("seconds") is None:
        depth = text(wake.get("depth"))
        metrics.WAKES.labels(key.namespace, key.name, depth).inc()
        metrics.WAKE_SECONDS.labels(depth).observe(whole(wake.get("seconds")))
        for step, seconds in mapping(wake.get("phases")).items():
            metrics.WAKE_STEP_SECONDS.labels(depth, step).observe(whole(seconds))
