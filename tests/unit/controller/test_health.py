"""Health of the operator, and its counters."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybreak.controller import health
from daybreak.controller.metrics import WRITES
from daybreak.controller.operator import Operator


@pytest.mark.parametrize(
    ("stuck", "lag", "why"),
    [
        (0, 0, ""),
        (health.STUCK_SECONDS, health.LAG_SECONDS, ""),
        (200, 0, "the queue has not moved for 200 s"),
        (0, 40, "the event loop is 40 s late"),
    ],
)
def test_operator_is_unhealthy_if_queue_is_stuck_or_event_loop_is_late(
    stuck: float, lag: float, why: str
) -> None:
    queue = SimpleNamespace(stuck=lambda: stuck, oldest=lambda: 10_000.0)
    assert health.unhealthy(cast(Operator, SimpleNamespace(queue=queue, lag=lag))) == why


async def test_metrics_page_is_rendered_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    made_in: list[Any] = []

    def page(_: object) -> bytes:
        made_in.append(threading.current_thread())
        return b"page"

    monkeypatch.setattr(health, "generate_latest", page)
    assert await health.metrics_page() == b"page"
    assert made_in != [threading.main_thread()]


async def test_metrics_page_with_names_renders_no_other_collector() -> None:
    WRITES.labels("LLMService").inc(0)
    page = (await health.metrics_page(["daybreak_writes_total"])).decode()
    assert {line.split("{")[0] for line in page.splitlines() if not line.startswith("#")} == {
        "daybreak_writes_total"
    }
    assert "daybreak_workqueue_depth" in (await health.metrics_page()).decode()
