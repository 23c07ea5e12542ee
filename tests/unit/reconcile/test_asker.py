"""Questions beside the workers: asked once, answered once, thrown away when they are about something else."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from daybreak.api.llmservice import LLMService
from daybreak.api.spec import Model
from daybreak.kube.cache import Key
from daybreak.lifecycle.observed import Answer
from daybreak.reconcile import asker as module
from daybreak.reconcile.asker import Asker

KEY = Key("ns", "s")
MODELS = [{"name": name, "source": "file:///m", "accelerator": {"kind": "cpu"}} for name in ("one", "two")]
SERVICE = LLMService.from_manifest({"metadata": {"name": "s", "namespace": "ns"}, "spec": {"models": MODELS}})


class Prober:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.answer: Callable[[str], Answer] = lambda name: Answer(name, True)

    async def ask(self, service: LLMService, model: Model) -> Answer:
        """What it was told to answer."""
        self.asked.append(model.name)
        await self.may_answer.wait()
        return self.answer(model.name)

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again at once."""
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def prober() -> Prober:
    """Who asks."""
    return Prober()


@pytest.fixture
def called() -> list[Key]:
    """Whom the asker has called back about."""
    return []


@pytest.fixture
async def asker(prober: Prober, called: list[Key]) -> AsyncIterator[Asker]:
    """The asker, which is closed after the test."""
    asker = Asker(prober, called.append)
    yield asker
    await asker.close()


async def settle() -> None:
    """Let what is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_asked_once_and_called_back(asker: Asker, prober: Prober, called: list[Key]) -> None:
    models = SERVICE.spec.models
    assert asker.answers(KEY, SERVICE, models, "now") == ()
    await settle()
    assert asker.answers(KEY, SERVICE, models, "now") == ()
    assert prober.asked == ["one", "two"]
    prober.may_answer.set()
    await settle()
    assert called == [KEY]
    assert asker.answers(KEY, SERVICE, models, "now") == (Answer("one", True), Answer("two", True))
    assert asker.answers(KEY, SERVICE, models, "now") == (), "each answer is given once"
    await settle()
    assert prober.asked == ["one", "two"] * 2


async def test_answers_about_something_else_are_thrown_away(
    asker: Asker, prober: Prober, called: list[Key]
) -> None:
    asker.answers(KEY, SERVICE, SERVICE.spec.models, "the old cluster")
    await settle()
    assert asker.answers(KEY, SERVICE, SERVICE.spec.models, "the new cluster") == ()
    prober.may_answer.set()
    await settle()
    assert called == [KEY], "only the new question calls back"
    assert len(asker.answers(KEY, SERVICE, SERVICE.spec.models, "the new cluster")) == 2


async def test_a_prober_that_breaks_is_no_answer(asker: Asker, prober: Prober) -> None:
    def broken(name: str) -> Answer:
        raise RuntimeError("a bug")

    prober.answer = broken
    prober.may_answer.set()
    asker.answers(KEY, SERVICE, SERVICE.spec.models[:1], "now")
    await settle()
    [answer] = asker.answers(KEY, SERVICE, SERVICE.spec.models[:1], "now")
    assert not answer.answered
    assert "a bug" in answer.message


async def test_a_pause_between_rounds(asker: Asker, prober: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 60.0)
    prober.may_answer.set()
    asker.answers(KEY, SERVICE, SERVICE.spec.models, "now")
    await settle()
    assert len(asker.answers(KEY, SERVICE, SERVICE.spec.models, "now")) == 2
    assert asker.answers(KEY, SERVICE, SERVICE.spec.models, "now") == ()
    await settle()
    assert prober.asked == ["one", "two"]


async def test_forgetting_ends_the_question(asker: Asker, prober: Prober, called: list[Key]) -> None:
    asker.answers(KEY, SERVICE, SERVICE.spec.models, "now")
    await settle()
    asker.forget(KEY)
    prober.may_answer.set()
    await settle()
    assert called == []
