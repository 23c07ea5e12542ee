"""Pipeline of Hugging Face Transformers, by its task."""

import json
from collections.abc import Mapping
from typing import Any

from daybreak_runtime.loaders.extras import needed
from daybreak_runtime.models.model import Model
from daybreak_runtime.v2.hints import OUTPUT, Field, Signature
from daybreak_runtime.v2.tensor import Tensor

_TEXT = "generated_text"
"""Key of a text in the results of pipelines."""
_SUMMARIES = (
    "for summaries, translations and answers take an LLM, or write a Model with AutoModelForSeq2SeqLM or "
    "AutoModelForQuestionAnswering"
)
"""Advice for tasks that Transformers 5 no longer has pipelines for."""


class HuggingFace(Model):
    """Model with text inputs, and outputs that depend on the task.

    `source` is a path or the name of a repository, with or without `hf://`. Of the settings, `task` is
    Transformers' name of the task (5 has none for summaries, translations and answers), `pipeline` goes to
    `transformers.pipeline`, `call` to each call of it. Classification returns `label` and `score` for each
    text. Tasks that generate text return `output`. Any other task returns its result as JSON in `output`.
    """

    platform = "huggingface_transformers"

    def load(self) -> None:
        """Load the pipeline. Raises ValueError with the available tasks."""
        transformers = needed("transformers", "hugging-face")
        task = str(self.settings.get("task", "text-classification"))
        pipelines = needed("transformers.pipelines", "hugging-face")
        try:
            # Canonical name of the task, for which others such as sentiment-analysis are aliases.
            self._task = pipelines.check_task(task)[0]
        except KeyError as error:
            known = ", ".join(pipelines.get_supported_tasks())
            raise ValueError(
                f"settings.task: Transformers has no pipeline for {task}; there are {known}; {_SUMMARIES}"
            ) from error
        more = dict(self.settings.get("pipeline", {}))
        self._pipeline = transformers.pipeline(task, model=self.source.removeprefix("hf://"), **more)

    def inference(self) -> Signature:
        """Return the signature: `text`, and the outputs of the task."""
        text = Field("text", Tensor("BYTES", -1), str)
        if self._task != "text-classification":
            return Signature((text,), (Field(OUTPUT, Tensor("BYTES", -1), str),))
        label, score = Field("label", Tensor("BYTES", -1), str), Field("score", Tensor("FP32", -1))
        return Signature((text,), (label, score), named=True)

    def predict(self, text: list[str]) -> Any:
        """Return a result for each text."""
        call = {"batch_size": len(text), **self.settings.get("call", {})} if text else {}
        found = [_first(each) for each in self._pipeline(text, **call)] if text else []
        if self._task == "text-classification":
            return {"label": [each["label"] for each in found], "score": [each["score"] for each in found]}
        return [_text(each) for each in found]


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, list) and len(result) == 1 else result


def _text(result: Any) -> str:
    if isinstance(result, Mapping) and isinstance(result.get(_TEXT), str):
        return str(result[_TEXT])
    return json.dumps(result, default=float)
