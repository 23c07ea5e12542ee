"""A replica's adapters follow the configuration, regardless of single failures."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from daybreak_runtime.http.front import NOT_BEGUN
from daybreak_runtime.lora import adapters as module
from daybreak_runtime.lora.adapters import Adapters
from daybreak_runtime.lora.check import Refused
from daybreak_runtime.lora.desired import DesiredAdapter
from daybreak_runtime.lora.files import NotFetched
from daybreak_runtime.lora.http import why_missing


class World:
    """Fake engine, and fake sources of adapters."""

    def __init__(self) -> None:
        self.listed: dict[str, str] = {}
        self.log: list[str] = []
        self.fails: dict[str, Exception] = {}
        """Exceptions to raise, by step and path."""
        self.may_fetch = asyncio.Event()
        self.may_fetch.set()
        self.added = asyncio.Event()

    async def add(self, name: str, path: str) -> None:
        """Add the adapter to the engine."""
        await self._step("add", path)
        self.listed[name] = path
        self.added.set()

    def remove(self, name: str) -> None:
        """Remove the adapter from the engine."""
        self.log.append(f"remove {name}")
        del self.listed[name]

    async def close(self) -> None:
        """Do nothing: the fake has no connection."""

    async def fetch(self, adapter: DesiredAdapter) -> str:
        """Return the path of the adapter."""
        await self.may_fetch.wait()
        await self._step("fetch", adapter.path)
        return adapter.path

    async def check(self, path: str) -> None:
        """Raise the preset exception if the adapter does not fit."""
        await self._step("check", path)

    async def _step(self, step: str, path: str) -> None:
        self.log.append(f"{step} {path}")
        await asyncio.sleep(0)
        if f"{step} {path}" in self.fails:
            raise self.fails[f"{step} {path}"]


def desired_state(**paths: str) -> dict[str, DesiredAdapter]:
    """Return adapters by name, each from a path."""
    return {name: DesiredAdapter(name, path, path=path) for name, path in paths.items()}


def states(found: Adapters) -> dict[str, tuple[str, str]]:
    """Return state and reason of each adapter."""
    return {name: (each["state"], each["reason"]) for name, each in found.report()["adapters"].items()}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def found(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Adapters]:
    monkeypatch.setattr(module, "AGAIN_SECONDS", (0.01, 0.02))
    made = Adapters(world, world.fetch, world.check)
    yield made
    await made.close()


async def test_adapter_is_fetched_checked_and_added_to_engine(world: World, found: Adapters) -> None:
    found.want(desired_state(a="/a"))
    assert await found.settled(5)
    assert world.log == ["fetch /a", "check /a", "add /a"]
    assert found.report() == {"adapters": {"a": {"id": "/a", "state": "Loaded", "reason": ""}}}


async def test_unchanged_adapter_is_not_reloaded_when_others_change(world: World, found: Adapters) -> None:
    found.want(desired_state(a="/a"))
    await found.settled(5)
    world.log.clear()
    found.want(desired_state(a="/a", b="/b"))
    await found.settled(5)
    assert world.log == ["fetch /b", "check /b", "add /b"]
    found.want(desired_state(b="/b"))
    assert world.listed == {"b": "/b"}
    assert states(found) == {"b": ("Loaded", "")}


@pytest.mark.parametrize("step", ["check", "add"])
async def test_rejected_adapter_is_reported_and_not_retried(world: World, found: Adapters, step: str) -> None:
    world.fails[f"{step} /a"] = Refused("its rank is 64")
    found.want(desired_state(a="/a", b="/b"))
    assert await found.settled(5)
    assert states(found) == {"a": ("Rejected", "its rank is 64"), "b": ("Loaded", "")}
    await asyncio.sleep(0.05)
    assert world.log.count("fetch /a") == 1
    assert why_missing(found, "a") == (404, "The adapter `a` cannot be used: its rank is 64.")
    assert why_missing(found, "b") is None
    assert why_missing(found, "stranger") is None


async def test_failed_fetch_of_adapter_is_retried(world: World, found: Adapters) -> None:
    world.fails["fetch /a"] = NotFetched("no network")
    found.want(desired_state(a="/a"))
    assert await found.settled(5)
    assert states(found) == {"a": ("Failed", "no network")}
    del world.fails["fetch /a"]
    async with asyncio.timeout(5):
        await world.added.wait()
    await asyncio.sleep(0)
    assert states(found) == {"a": ("Loaded", "")}


async def test_unexpected_error_is_reported_as_failed_adapter(world: World, found: Adapters) -> None:
    world.fails["check /a"] = ZeroDivisionError("oh")
    found.want(desired_state(a="/a"))
    assert await found.settled(5)
    assert states(found) == {"a": ("Failed", "ZeroDivisionError: oh")}


async def test_previous_adapter_is_kept_until_replacement_is_loaded(world: World, found: Adapters) -> None:
    found.want(desired_state(a="/a"))
    await found.settled(5)
    world.may_fetch.clear()
    found.want(desired_state(a="/new"))
    assert not await found.settled(0.02)
    assert (world.listed, found.missing("a")) == ({"a": "/a"}, None)
    world.may_fetch.set()
    await found.settled(5)
    assert world.listed == {"a": "/new"}
    assert "remove a" not in world.log


async def test_previous_adapter_is_removed_when_replacement_is_rejected(
    world: World, found: Adapters
) -> None:
    found.want(desired_state(a="/a"))
    await found.settled(5)
    world.fails["check /new"] = Refused("too wide")
    found.want(desired_state(a="/new"))
    await found.settled(5)
    assert (world.listed, states(found)) == ({}, {"a": ("Rejected", "too wide")})


async def test_adapter_removed_during_fetch_is_never_loaded(world: World, found: Adapters) -> None:
    world.may_fetch.clear()
    found.want(desired_state(a="/a"))
    await asyncio.sleep(0)
    assert why_missing(found, "a") == (NOT_BEGUN, "The adapter `a` is being loaded: try again in a moment.")
    found.want({})
    assert await found.settled(5)
    world.may_fetch.set()
    await asyncio.sleep(0.02)
    assert (world.log, found.report()) == ([], {"adapters": {}})
