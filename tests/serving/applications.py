"""Models for the tests, each there to show one thing. Run by Ray's Python, as the samples are."""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypedDict

import numpy as np
from pydantic import BaseModel
from ray import serve

from daybreak_runtime.loaders.hugging_face import HuggingFace
from daybreak_runtime.models import BadInput, Model, Request, Tensor, application
from daybreak_runtime.pipelines import Chat, ChatModel, chat_application, together
from daybreak_runtime.pipelines.chat_server import ChatArgs

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


class Evicted(Model):
    """Says which models its replica has loaded (+) and unloaded (-)."""

    changes: ClassVar[list[str]] = []

    def load(self) -> None:
        self.changes.append(f"+{self.name}")

    def unload(self) -> None:
        self.changes.append(f"-{self.name}")

    def predict(self, text: str) -> str:
        return " ".join(self.changes)


class Shouter(ChatModel):
    """Model that repeats word by word, and fails on request."""

    async def answer(self, chat: Chat) -> AsyncIterator[str]:
        for word in chat.text.split():
            if word == "fail":
                raise RuntimeError("as told")
            yield f"{word.upper()} "


class Slow(Model):
    """Model that takes as long as the request sets; no time at all is an error."""

    async def predict(self, seconds: float) -> float:
        if seconds < 0:
            raise ArithmeticError("there is no such time")
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


class ChatResult(BaseModel):
    """Return value of Ray Serve LLM's server for a chat that is no stream, and for one that fails."""

    choices: list[dict[str, Any]] = []
    error: dict[str, Any] | None = None


class PlayedLLM:
    """Ray Serve LLM's server, as far as handles know it: it says the last message again."""

    async def chat(self, request: Any) -> AsyncIterator[Any]:
        text = request.messages[-1]["content"]
        if text == "fail":
            yield ChatResult(error={"message": "the prompt is too long", "code": 400})
        elif not request.stream:
            yield ChatResult(choices=[{"message": {"content": f"{text} ({request.max_tokens})"}}])
        else:
            for word in text.split():
                piece = {"choices": [{"delta": {"content": f"{word}."}}]}
                yield [f"data: {json.dumps(piece)}\n\n"]
            yield ["data: [DONE]\n\n"]


class Asks(ChatModel):
    """Answers what an LLM of the same application answers."""

    async def answer(self, chat: Chat) -> AsyncIterator[str]:
        llm = self.llms["played"]
        if chat.stream:
            async for piece in llm.stream(chat.messages):
                yield piece
        else:
            yield await llm.chat(chat.text, max_tokens=7)


def asks(args: ChatArgs) -> serve.Application:
    """Build the application of `spec.llms`, with a simulated LLM in place of a real one."""
    played = serve.deployment(PlayedLLM).bind()
    return chat_application(Asks)(args.model_copy(update={"models": {"played": played}}))


hugging_face = application(TinyHuggingFace)
whole = application(Whole)
batched = application(Batched)
sourced = application(Sourced)
evicted = application(Evicted)
shouter = chat_application(Shouter)
joins = application(Joins, uses={"slow": Slow})
