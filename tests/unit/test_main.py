"""The program, up to where it runs."""

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from daybreak import __main__ as program
from daybreak import logs
from daybreak.settings import Settings


def test_what_is_known_is_not_gone_through_again_with_each_burst_of_reconciles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A few of them at a time must not make so many new objects that all others are collected too."""
    set_to: list[tuple[int, ...]] = []

    def run(running: Any) -> bool:
        running.close()
        return True

    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *given: set_to.append(given))
    monkeypatch.setattr(asyncio, "run", run)
    monkeypatch.setattr(program, "HttpModelClient", lambda: None)
    monkeypatch.setattr(logs, "configure", lambda _: None)
    monkeypatch.setattr(Settings, "from_environment", lambda: SimpleNamespace(log_level="info"))
    assert program.main() == 0
    assert set_to == [program.COLLECT]
    assert program.COLLECT > (700, 10, 10)
