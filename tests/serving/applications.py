"""Models for the tests, each there to show one thing. Run by Ray's Python, as the samples are."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np

from daybreak_runtime.loaders.hugging_face import HuggingFace
from daybreak_runtime.models import BadInput, Model, Request, Tensor, application
from daybreak_runtime.pipelines import Chat, ChatModel, chat_application, together

Rows = Annotated[np.ndarray, Tensor("FP32", -1, 2)]


class Kinds(TypedDict):
    """One output of each kind."""

    sums: Annotated[np.ndarray, Tensor("FP32", -1)]
    names: list[str]


class Whole(Model):
    """Every hook, each with a trace of itself."""

    def load(self) -> None:
        self.factor = 2.0

    def preprocess(self, x: Rows, request: Request) -> dict[str, np.ndarray]:
        if request.parameters.get("refuse"):
            raise BadInput("refused by the model")
        return {"doubled": x * self.factor}

    async def predict(self, doubled: Rows) -> Rows:
        if np.isnan(doubled).any():
            raise ArithmeticError("not a number")
        await asyncio.sleep(0)
        return doubled

    def postprocess(self, rows: Rows) -> Kinds:
        return {"sums": rows.sum(axis=1), "names": [f"row-{n}" for n in range(len(rows))]}

    def explain(self, x: Rows) -> Rows:
        return x - 1


class Batched(Model):
    """Says how many rows it was given at once; NaN fails the whole call."""

    def predict(self, x: Rows) -> Annotated[np.ndarray, Tensor("INT64", -1, 2)]:
        if np.isnan(x).any():
            raise ArithmeticError("not a number")
        time.sleep(0.05)
        return np.stack([x[:, 0].astype(np.int64), np.full(len(x), len(x))], axis=1)


class Sourced(Model):
    """Says which version and source it is."""

    def load(self) -> None:
        if self.source == "broken":
            raise OSError("there are no weights")

    def predict(self, text: str) -> str:
        return f"{self.name} {self.version} {self.source} {text}"


class Shouter(ChatModel):
    """Repeats word by word; fails where it is told to."""

    async def answer(self, chat: Chat) -> AsyncIterator[str]:
        for word in chat.text.split():
            if word == "fail":
                raise RuntimeError("as told")
            yield f"{word.upper()} "


class Slow(Model):
    """Takes as long as it is told."""

    async def predict(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds


class Joins(Model):
    """Asks `slow` twice at once, the second of which may fail."""

    async def predict(self, first: float, second: float) -> list[str]:
        slow = self.uses["slow"]
        joined = await together(
            {"first": slow(seconds=first), "second": slow(seconds=second)}, within=1.0, needed=["first"]
        )
        return [*joined, *(f"failed {name}" for name in joined.errors)]


class TinyHuggingFace(HuggingFace):
    """The loader, with a classifier that is made here: random weights, words of one list."""

    def load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.source = make_tiny(folder)
            super().load()


def make_tiny(folder: str) -> str:
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    vocabulary = Path(folder) / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]))
    BertTokenizerFast(vocab_file=str(vocabulary)).save_pretrained(folder)
    config = BertConfig(
        vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


hugging_face = application(TinyHuggingFace)
whole = application(Whole)
batched = application(Batched)
sourced = application(Sourced)
shouter = chat_application(Shouter)
joins = application(Joins, uses={"slow": Slow})
