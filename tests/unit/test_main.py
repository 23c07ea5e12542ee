"""The operator's program, up to the start of its event loop."""

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from daybreak import __main__ as program
from daybreak import logs
from daybreak.api.modelserver.profiles import with_own
from daybreak.settings import Settings


def started(monkeypatch: pytest.MonkeyPatch, engines: str) -> int:
    """Return the exit status of the program with these custom engines. The event loop is a stub."""

    def run(running: Any) -> bool:
        running.close()
        return True

    monkeypatch.setattr(asyncio, "run", run)
    monkeypatch.setattr(program, "HttpModelClient", lambda: None)
    monkeypatch.setattr(logs, "configure", lambda _: None)
    settings = SimpleNamespace(log_level="info", engines=with_own(engines))
    monkeypatch.setattr(Settings, "from_environment", lambda: settings)
    return program.main()


def test_start_increases_garbage_collection_thresholds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A few concurrent reconciles must not allocate enough objects to trigger a collection of all others."""
    set_to: list[tuple[int, ...]] = []
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *given: set_to.append(given))
    assert started(monkeypatch, "{}") == 0
    assert set_to == [program.COLLECT]
    assert program.COLLECT > (700, 10, 10)


def test_invalid_custom_engine_is_reported_in_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *given: None)
    assert started(monkeypatch, '{"own": {"flagStyle": "none", "port": 1}}') == 0
    [record] = caplog.records
    assert (
        "engine own of the chart's value `engines` is left out: engines.own.readinessPath: " in record.message
    )
