"""Questions to models, asked beside the workers: a model may take half a minute to answer."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from daybreak.api.llmservice.definition import LLMService
from daybreak.api.ray.model import Model
from daybreak.controller import metrics
from daybreak.kinds.llmservice.observe.model_client import ModelClient
from daybreak.kinds.llmservice.observe.observed import Answer
from daybreak.kube.cache import Key

AT_ONCE = 16
"""Services that are asked at the same time."""
PAUSE_SECONDS = 2.0
"""Shortest time between two rounds of questions to one service."""
PATIENCE_SECONDS = 25.0
"""How long an answer may take."""
WAKING_PATIENCE_SECONDS = 600.0
"""The same while the model wakes: the question waits in Serve until a replica can take it."""


@dataclass(frozen=True)
class Question:
    """Whom to ask, and where.

    Attributes:
        service: The LLMService.
        models: Who must answer.
        base: Base URL at which they are asked.
        about: What they are asked as: answers given as something else are thrown away.
        waking: Whether they are waking.
    """

    service: LLMService
    models: Sequence[Model]
    base: str
    about: object
    waking: bool = False


@dataclass
class _Round:
    about: object
    ended: float | None = None
    answers: dict[str, Answer] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class Prober:
    """Asks, and calls back with each answer that is there: one model may take minutes longer than another."""

    def __init__(self, client: ModelClient, on_answer: Callable[[Key], None]) -> None:
        self._client = client
        self._on_answer = on_answer
        self._rounds: dict[Key, _Round] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    def answers(self, key: Key, question: Question) -> tuple[Answer, ...]:
        """The answers that have come, each given once. When a round has ended and all are given, a new one
        begins.
        """
        about = (question.about, question.base, question.waking)
        models = question.models
        current = self._rounds.get(key)
        if current is not None and current.about != about:
            self.forget(key)
            current = None
        if current is not None:
            wanted = [current.answers.pop(model.name) for model in models if model.name in current.answers]
            resting = current.ended is not None and time.monotonic() < current.ended + PAUSE_SECONDS
            if wanted or current.ended is None or resting:
                return tuple(wanted)
        new = _Round(about)
        self._rounds[key] = new
        new.task = asyncio.create_task(self._ask(key, question, new), name=f"ask {key}")
        return ()

    def forget(self, key: Key) -> None:
        """Stop asking an LLMService that has nothing (more) to be asked."""
        current = self._rounds.pop(key, None)
        if current is not None and current.task is not None:
            current.task.cancel()

    async def close(self) -> None:
        """Stop every question."""
        tasks = [current.task for current in self._rounds.values() if current.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    async def _ask(self, key: Key, question: Question, current: _Round) -> None:
        # Who wakes may take minutes: nobody shall wait for that.
        async with contextlib.nullcontext() if question.waking else self._slots:
            await asyncio.gather(*(self._take(key, question, model, current) for model in question.models))
        current.ended = time.monotonic()

    async def _take(self, key: Key, question: Question, model: Model, current: _Round) -> None:
        answer = await self._ask_one(question, model)
        metrics.ASKED.labels("answered" if answer.answered else "failed").inc()
        current.answers[answer.model] = answer
        self._on_answer(key)

    async def _ask_one(self, question: Question, model: Model) -> Answer:
        patience = WAKING_PATIENCE_SECONDS if question.waking else PATIENCE_SECONDS
        try:
            return await self._client.ask(question.service, model, question.base, patience)
        except Exception as error:  # noqa: BLE001 -- whatever a stranger's server can cause, it is no answer
            return Answer(model.name, False, f"asking failed: {type(error).__name__} {error}")
