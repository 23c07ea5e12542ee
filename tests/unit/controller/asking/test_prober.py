"""Background probes: one at a time, one answer each, discarded when the question has changed."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from daybreak.api.common.task import Task
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.ray.model import Model
from daybreak.controller.asking import prober as module
from daybreak.controller.asking.model_client import WorkloadWithModels
from daybreak.controller.asking.prober import Prober, Question
from daybreak.manifests.keys import Key
from daybreak.workloads.answer import Answer

KEY = Key("ns", "s")
MODELS = [{"name": name, "source": "file:///m", "accelerator": {"kind": "cpu"}} for name in ("one", "two")]
SERVICE = LLMService.from_manifest({"metadata": {"name": "s", "namespace": "ns"}, "spec": {"models": MODELS}})


def questions(about: str, models: int = 2, waking: str = "") -> list[Question]:
    """Return the probes of the first models; one of them may be waking."""
    return [
        Question(SERVICE, model, "http://head:8000/v1", about, waking=model.name == waking)
        for model in SERVICE.spec.models[:models]
    ]


class ModelClient:
    """Fake that answers on a signal."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.may_answer = asyncio.Event()
        self.slow: set[str] = set()
        """Models that never answer."""
        self.answer: Callable[[str], Answer] = lambda name: Answer(name, True)

    async def ask(
        self,
        service: WorkloadWithModels,
        model: Model,
        base: str,
        patience: float,
        path: str = "",
        task: Task | None = None,
    ) -> Answer:
        """Return the preset answer."""
        self.requested.append(model.name)
        await self.may_answer.wait()
        if model.name in self.slow:
            await asyncio.Event().wait()
        return self.answer(model.name)

    async def close(self) -> None:
        """Do nothing: the fake has no connection."""


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe again without a pause."""
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def client() -> ModelClient:
    """Return the fake client that sends the probes."""
    return ModelClient()


@pytest.fixture
def called() -> list[Key]:
    """Return the list in which the prober's callbacks are recorded."""
    return []


@pytest.fixture
async def prober(client: ModelClient, called: list[Key]) -> AsyncIterator[Prober]:
    """Yield the prober, which is closed after the test."""
    prober = Prober(client, called.append)
    yield prober
    await prober.close()


def look(prober: Prober, questions: list[Question]) -> tuple[Answer, ...]:
    """Take the received answers, and probe, as one reconcile does."""
    found = prober.answers(KEY, questions)
    prober.ask(KEY, questions)
    return found


async def settle() -> None:
    """Let ready tasks run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_prober_probes_each_model_once_and_returns_each_answer_once(
    prober: Prober, client: ModelClient, called: list[Key]
) -> None:
    assert look(prober, questions("now")) == ()
    await settle()
    assert look(prober, questions("now")) == ()
    assert client.requested == ["one", "two"]
    client.may_answer.set()
    await settle()
    assert set(called) == {KEY}
    assert look(prober, questions("now")) == (Answer("one", True), Answer("two", True))
    assert look(prober, questions("now")) == (), "each answer is given once"
    await settle()
    assert client.requested == ["one", "two"] * 2


async def test_answer_is_returned_while_another_model_does_not_answer(
    prober: Prober, client: ModelClient, called: list[Key]
) -> None:
    client.slow = {"two"}
    client.may_answer.set()
    look(prober, questions("now"))
    await settle()
    assert called == [KEY]
    assert look(prober, questions("now")) == (Answer("one", True),)
    assert look(prober, questions("now")) == ()
    await settle()
    assert client.requested.count("two") == 1, "nobody is asked twice at a time"


async def test_model_is_probed_while_waking_model_does_not_answer(
    prober: Prober, client: ModelClient
) -> None:
    """The probe of a waking model hangs for minutes: the next one must not wait for it."""
    client.slow = {"one"}
    client.may_answer.set()
    look(prober, questions("now", models=1, waking="one"))
    await settle()
    look(prober, questions("now", waking="one"))
    await settle()
    assert look(prober, questions("now", waking="one")) == (Answer("two", True),)
    assert client.requested == ["one", "two"]


async def test_answer_of_no_longer_requested_model_is_dropped(prober: Prober, client: ModelClient) -> None:
    look(prober, questions("now"))
    await settle()
    look(prober, questions("now", models=1))
    client.may_answer.set()
    await settle()
    assert look(prober, questions("now")) == (Answer("one", True),)


async def test_answers_are_discarded_if_question_has_changed(
    prober: Prober, client: ModelClient, called: list[Key]
) -> None:
    look(prober, questions("the old cluster"))
    await settle()
    assert look(prober, questions("the new cluster")) == ()
    client.may_answer.set()
    await settle()
    assert set(called) == {KEY}
    assert len(called) == 2, "only the new question calls back"
    assert len(look(prober, questions("the new cluster"))) == 2


async def test_exception_in_probe_is_reported_as_failed_answer(prober: Prober, client: ModelClient) -> None:
    def broken(name: str) -> Answer:
        raise RuntimeError("a bug")

    client.answer = broken
    client.may_answer.set()
    look(prober, questions("now", models=1))
    await settle()
    [answer] = look(prober, questions("now", models=1))
    assert not answer.answered
    assert "a bug" in answer.message


async def test_next_probe_waits_for_pause_after_answer(
    prober: Prober, client: ModelClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 60.0)
    client.may_answer.set()
    look(prober, questions("now"))
    await settle()
    assert len(look(prober, questions("now"))) == 2
    assert look(prober, questions("now")) == ()
    await settle()
    assert client.requested == ["one", "two"]


async def test_forget_cancels_running_probe_without_callback(
    prober: Prober, client: ModelClient, called: list[Key]
) -> None:
    look(prober, questions("now"))
    await settle()
    prober.forget(KEY)
    client.may_answer.set()
    await settle()
    assert called == []
