"""The sample pipeline, without Ray: its models are fakes."""

import importlib.util
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest

from cluster import paths
from daybreak_runtime import models
from daybreak_runtime.v2.problem import Problem

SAMPLE = paths.REPOSITORY / "manifests" / "samples" / "applications" / "documents.py"
Played = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def documents(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # Only the application itself needs Ray.
    monkeypatch.setitem(vars(models), "application", lambda *kinds, **options: None)
    spec = importlib.util.spec_from_file_location("documents", SAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gives(output: str) -> Played:
    async def called(text: list[str]) -> dict[str, Any]:
        return {"output": [output] * len(text)}

    return called


def fails(error: Exception) -> Played:
    async def called(text: list[str]) -> dict[str, Any]:
        raise error

    return called


@pytest.mark.parametrize("error", [OSError("no weights"), Problem("summary: asleep", 503)])
async def test_failed_summary_is_reported_and_sentiment_is_returned(
    documents: ModuleType, error: Exception
) -> None:
    model = documents.Documents()
    model.settings, model.uses = {}, {"sentiment": gives("POSITIVE"), "summary": fails(error)}
    found = await model.predict("Fast.")
    assert found == {"sentiment": "POSITIVE", "summary": "", "failed": ["summary"]}


async def test_sentiment_and_summary_are_joined(documents: ModuleType) -> None:
    model = documents.Documents()
    model.settings, model.uses = {}, {"sentiment": gives("POSITIVE"), "summary": gives("Fast.")}
    found = await model.predict("Fast. It rained.")
    assert found == {"sentiment": "POSITIVE", "summary": "Fast.", "failed": []}


async def test_failed_sentiment_fails_whole_prediction(documents: ModuleType) -> None:
    model = documents.Documents()
    model.settings, model.uses = {}, {"sentiment": fails(Problem("asleep", 503)), "summary": gives("")}
    with pytest.raises(Problem) as caught:
        await model.predict("Fast.")
    assert caught.value.status == 503
