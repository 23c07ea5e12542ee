"""The loader of Transformers' pipelines, by task; the library is a fake, with tasks of 5.23."""

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from daybreak_runtime.loaders import HuggingFace

TASKS = {
    "text-classification": "text-classification",
    "sentiment-analysis": "text-classification",
    "text-generation": "text-generation",
    "token-classification": "token-classification",
}
LABELS = [{"label": "good", "score": 0.75}]
GIVES: Mapping[str, Any] = {
    "text-classification": LABELS,
    "text-generation": [{"generated_text": "a b c"}],
    "token-classification": [{"entity": "PER", "start": 0}, {"entity": "LOC", "start": 5}],
}


def check_task(task: str) -> tuple[str, dict[str, Any], None]:
    if task not in TASKS:
        raise KeyError(f"The task {task} has been removed from transformers.")
    return TASKS[task], {}, None


def pipeline(task: str, **given: Any) -> Any:
    return lambda texts, **call: [GIVES[TASKS[task]] for _ in texts]


@pytest.fixture(autouse=True)
def transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines = SimpleNamespace(check_task=check_task, get_supported_tasks=lambda: sorted(TASKS))
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(pipeline=pipeline, pipelines=pipelines))
    monkeypatch.setitem(sys.modules, "transformers.pipelines", pipelines)


def loaded(**settings: Any) -> HuggingFace:
    found = HuggingFace()
    found.source, found.settings = "hf://a/b", settings
    found.load()
    return found


@pytest.mark.parametrize(
    "task", ["summarization", "translation", "text2text-generation", "question-answering"]
)
def test_removed_task_is_rejected_with_list_of_supported_tasks(task: str) -> None:
    with pytest.raises(ValueError, match=rf"settings\.task: .* no pipeline for {task}; there are ") as found:
        loaded(task=task)
    assert ", ".join(sorted(TASKS)) in str(found.value)
    assert "AutoModelForSeq2SeqLM" in str(found.value)


@pytest.mark.parametrize("task", ["text-classification", "sentiment-analysis"])
def test_a_classifier_gives_label_and_score(task: str) -> None:
    found = loaded(task=task)
    assert [each.name for each in found.inference().outputs] == ["label", "score"]
    assert found.predict(["a", "b"]) == {"label": ["good", "good"], "score": [0.75, 0.75]}
    assert found.predict([]) == {"label": [], "score": []}


def test_text_output_is_returned_as_text_and_other_output_as_json() -> None:
    assert loaded(task="text-generation").predict(["a"]) == ["a b c"]
    [message] = loaded(task="token-classification").predict(["a"])
    assert message == '[{"entity": "PER", "start": 0}, {"entity": "LOC", "start": 5}]'
