"""Questions to models, asked beside the workers: a model may take half a minute to answer."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daybreak.api.common.task import Task
from daybreak.api.ray.model import Model
from daybreak.controller import metrics
from daybreak.controller.asking.model_client import Asked, ModelClient
from daybreak.manifests.keys import Key
from daybreak.workloads.answer import Answer

AT_ONCE = 16
"""Models that are asked at the same time, without those that wake."""
PAUSE_SECONDS = 2.0
"""Shortest time between two questions to one model."""
PATIENCE_SECONDS = 25.0
"""How long an answer may take."""
WAKING_PATIENCE_SECONDS = 600.0
"""The same while the model wakes: the question waits in Serve until a replica can take it."""


@dataclass(frozen=True)
class Question:
    """Which model to ask, and where.

    Attributes:
        service: Whose model it is.
        model: Who must answer.
        base: Base URL at which it is asked.
        about: What it is asked as: an answer given as something else is thrown away.
        waking: Whether it is waking.
        path: Path that answers 200 if the model does; if empty, the model is probed by its task.
        task: API by which it is probed; None if the engine's own list decides.
    """

    service: Asked
    model: Model
    base: str
    about: object
    waking: bool = False
    path: str = ""
    task: Task | None = None


@dataclass
class _State:
    about: object
    ended: float | None = None
    answer: Answer | None = None
    """The answer, until it is given."""
    task: asyncio.Task[None] | None = None


class Prober:
    """Asks, and calls back with each answer that is there: one model may take minutes longer than another."""

    def __init__(self, client: ModelClient, on_answer: Callable[[Key], None]) -> None:
        self._client = client
        self._on_answer = on_answer
        self._asked: dict[Key, dict[str, _State]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    def answers(self, key: Key, questions: Sequence[Question]) -> tuple[Answer, ...]:
        """Return the answers that have come to these questions, each once."""
        found = []
        for question in questions:
            current = self._asked.get(key, {}).get(question.model.name)
            if current is None or current.about != _about(question) or current.answer is None:
                continue
            found.append(current.answer)
            current.answer = None
        return tuple(found)

    def ask(self, key: Key, questions: Sequence[Question]) -> None:
        """Ask these and no others. A model that has answered is asked again, after a pause."""
        if not questions:
            self.forget(key)
            return
        asked = self._asked.setdefault(key, {})
        models = {question.model.name for question in questions}
        for model in [model for model in asked if model not in models]:
            _cancel(asked.pop(model))
        for question in questions:
            self._ask_again(key, asked, question)

    def forget(self, key: Key) -> None:
        """Stop asking a workload that has nothing (more) to be asked."""
        for current in self._asked.pop(key, {}).values():
            _cancel(current)

    def _ask_again(self, key: Key, asked: dict[str, _State], question: Question) -> None:
        about = _about(question)
        current = asked.get(question.model.name)
        if current is not None and current.about == about:
            waits = current.ended is None or time.monotonic() < current.ended + PAUSE_SECONDS
            if current.answer is not None or waits:
                return
        elif current is not None:
            _cancel(current)
        new = asked[question.model.name] = _State(about)
        new.task = asyncio.create_task(self._ask(key, question, new), name=f"ask {key} {question.model.name}")

    async def close(self) -> None:
        """Stop every question."""
        every = [current for asked in self._asked.values() for current in asked.values()]
        tasks = [current.task for current in every if current.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    async def _ask(self, key: Key, question: Question, current: _State) -> None:
        # A model that wakes may take minutes: nothing else shall wait for that.
        async with contextlib.nullcontext() if question.waking else self._slots:
            answer = await self._ask_one(question)
        metrics.ASKED.labels("answered" if answer.answered else "failed").inc()
        current.answer, current.ended = answer, time.monotonic()
        self._on_answer(key)

    async def _ask_one(self, question: Question) -> Answer:
        model = question.model
        patience = WAKING_PATIENCE_SECONDS if question.waking else PATIENCE_SECONDS
        try:
            return await self._client.ask(
                question.service, model, question.base, patience, question.path, question.task
            )
        except Exception as error:  # noqa: BLE001 -- whatever a stranger's server can cause, it is no answer
            return Answer(model.name, False, f"asking failed: {type(error).__name__} {error}")


def _about(question: Question) -> object:
    """Return what an answer is about: one to another question does not count."""
    return question.about, question.base, question.path, question.task, question.waking


def _cancel(current: _State) -> None:
    if current.task is not None:
        current.task.cancel()
