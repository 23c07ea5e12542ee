"""Probes of models, run outside the workers because a model may take half a minute to answer."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daybreak.api.common.task import Task
from daybreak.api.ray.model import Model
from daybreak.controller import metrics
from daybreak.controller.asking.model_client import ModelClient, WorkloadWithModels
from daybreak.manifests.keys import Key
from daybreak.workloads.answer import Answer

AT_ONCE = 16
"""Maximum number of models that are probed concurrently, without waking models."""
PAUSE_SECONDS = 2.0
"""Minimum time in seconds between two probes of one model."""
PATIENCE_SECONDS = 25.0
"""Maximum duration of a probe in seconds."""
WAKING_PATIENCE_SECONDS = 600.0
"""Maximum duration in seconds of a probe of a waking model: the request waits in Serve for a replica."""


@dataclass(frozen=True)
class Question:
    """Target of a probe.

    Attributes:
        service: Workload of the model.
        model: Model to probe.
        base: Base URL of the model's API.
        about: Context of the probe. An answer from another context is discarded.
        waking: True if the model is waking.
        path: Path that answers 200 if the model is healthy; if empty, the model is probed by its task.
        task: Task to probe; None if the engine's own list decides.
    """

    service: WorkloadWithModels
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
    """The answer, until a caller takes it."""
    task: asyncio.Task[None] | None = None


class Prober:
    """Probes models and calls back after each answer.

    One model may take minutes longer than another, so each answer is reported at once.
    """

    def __init__(self, client: ModelClient, on_answer: Callable[[Key], None]) -> None:
        self._client = client
        self._on_answer = on_answer
        self._requested: dict[Key, dict[str, _State]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    def answers(self, key: Key, questions: Sequence[Question]) -> tuple[Answer, ...]:
        """Return the new answers to these questions, each once."""
        found = []
        for question in questions:
            current = self._requested.get(key, {}).get(question.model.name)
            if current is None or current.about != _about(question) or current.answer is None:
                continue
            found.append(current.answer)
            current.answer = None
        return tuple(found)

    def ask(self, key: Key, questions: Sequence[Question]) -> None:
        """Probe the models of these questions and no others.

        A model with an answer is probed again after a pause.
        """
        if not questions:
            self.forget(key)
            return
        requested = self._requested.setdefault(key, {})
        models = {question.model.name for question in questions}
        for model in [model for model in requested if model not in models]:
            _cancel(requested.pop(model))
        for question in questions:
            self._ask_again(key, requested, question)

    def forget(self, key: Key) -> None:
        """Stop probing the models of a workload."""
        for current in self._requested.pop(key, {}).values():
            _cancel(current)

    def _ask_again(self, key: Key, requested: dict[str, _State], question: Question) -> None:
        about = _about(question)
        current = requested.get(question.model.name)
        if current is not None and current.about == about:
            waits = current.ended is None or time.monotonic() < current.ended + PAUSE_SECONDS
            if current.answer is not None or waits:
                return
        elif current is not None:
            _cancel(current)
        new = requested[question.model.name] = _State(about)
        new.task = asyncio.create_task(self._ask(key, question, new), name=f"ask {key} {question.model.name}")

    async def close(self) -> None:
        """Stop all probes."""
        every = [current for requested in self._requested.values() for current in requested.values()]
        tasks = [current.task for current in every if current.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    async def _ask(self, key: Key, question: Question, current: _State) -> None:
        # A waking model may take minutes, so it must not occupy a slot of other models.
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
    """Return the context of an answer; an answer to another question is ignored."""
    return question.about, question.base, question.path, question.task, question.waking


def _cancel(current: _State) -> None:
    if current.task is not None:
        current.task.cancel()
