"""A pipeline of Hugging Face Transformers, by its task."""

import json
from collections.abc import Mapping
from typing import Any

from daybreak_runtime.loaders.extras import needed
from daybreak_runtime.models.model import Model
from daybreak_runtime.v2.hints import OUTPUT, Field, Signature
from daybreak_runtime.v2.tensor import Tensor

_TEXTS = ("generated_text", "summary_text", "translation_text", "answer")
"""Keys under which pipelines have a text."""


class HuggingFace(Model):
    """Texts in; what comes out depends on the task.

    `source` is a path or the name of a repository, with or without `hf://`. Of the settings, `task` is
    Transformers' name of the task, `pipeline` goes to `transformers.pipeline`, `call` to each call of it.
    Classification gives `label` and `score` for each text. Tasks that give text, `output`. Any other, its
    result as JSON in `output`.
    """

    platform = "huggingface_transformers"

    def load(self) -> None:
        """Load the pipeline."""
        transformers = needed("transformers", "hugging-face")
        self._task = str(self.settings.get("task", "text-classification"))
        more = dict(self.settings.get("pipeline", {}))
        self._pipeline = transformers.pipeline(self._task, model=self.source.removeprefix("hf://"), **more)

    def inference(self) -> Signature:
        """`text`, and what the task gives."""
        text = Field("text", Tensor("BYTES", -1), str)
        if self._task != "text-classification":
            return Signature((text,), (Field(OUTPUT, Tensor("BYTES", -1), str),))
        label, score = Field("label", Tensor("BYTES", -1), str), Field("score", Tensor("FP32", -1))
        return Signature((text,), (label, score), named=True)

    def predict(self, text: list[str]) -> Any:
        """A result for each text."""
        call = {"batch_size": len(text), **self.settings.get("call", {})} if text else {}
        found = [_first(each) for each in self._pipeline(text, **call)] if text else []
        if self._task == "text-classification":
            return {"label": [each["label"] for each in found], "score": [each["score"] for each in found]}
        return [_text(each) for each in found]


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, list) and len(result) == 1 else result


def _text(result: Any) -> str:
    if isinstance(result, Mapping):
        for key in _TEXTS:
            if isinstance(result.get(key), str):
                return str(result[key])
    return json.dumps(result, default=float)
