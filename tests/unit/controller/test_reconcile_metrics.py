"""Metrics of reconciles: every kind has separate series."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from daybreak.controller.operator import Operator
from daybreak.controller.queue import Item, Queue
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key

SERIES = ("daybreak_reconciles_total", {"kind": "ModelServer", "outcome": "done"})
DURATION = ("daybreak_reconcile_seconds_count", {"kind": "ModelServer"})


def value(name: str, labels: dict[str, str]) -> float:
    """Return the value of a series, 0 if it does not exist."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_reconcile_is_counted_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reconcile(key: Key) -> None:
        await asyncio.sleep(0)

    kind = cast(Any, SimpleNamespace(name="ModelServer", watched=(), reconcile=reconcile))
    nothing = cast(Any, SimpleNamespace())
    queue = Queue()
    operator = Operator(nothing, Cache(), queue, nothing, nothing, [kind], needed=(), on_end=lambda: None)
    before = [value(*each) for each in (SERIES, DURATION)]
    queue.add(Item("ModelServer", Key("ns", "one")), 0.0)
    item = await queue.take()
    await operator._reconcile(item)
    assert [value(*each) for each in (SERIES, DURATION)] == [each + 1 for each in before]
