"""A gateway that is nearly full reports it, and still has capacity for clients with few requests."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.agent.fullness import FullnessWatch
from daybreak.gateway.supervisor.memory import memory
from tests.gateway.hostile import POST, crowd
from tests.gateway.town import MIB, Town

PAGES = f"anon 1\ninactive_file {MIB}\ntotal_inactive_file {MIB}\n"
LIMITED: dict[str, Any] = {"max_connections": 100}


def watching(town: Town, folder: Path) -> FullnessWatch:
    """Return a watch that reads that control group."""
    return FullnessWatch(town.gateway, town.router, lambda: memory(folder))


def group(folder: Path, used: int, limit: str = str(1024 * MIB), version: int = 2) -> Path:
    """Return a control group's files, as the kernel has them."""
    names = ("memory.current", "memory.max")
    if version == 1:
        names = ("memory/memory.usage_in_bytes", "memory/memory.limit_in_bytes")
        (folder / "memory").mkdir(exist_ok=True)
    for name, value in zip(names, (str(used), limit), strict=True):
        (folder / name).write_text(value + "\n")
    (folder / names[0]).with_name("memory.stat").write_text(PAGES)
    return folder


async def taken(town: Town, count: int) -> None:
    """Wait until HAProxy has taken more connections than that; the kernel accepts them before it does."""
    async with asyncio.timeout(30):
        found = await town.router.connections()
        while found.now <= count:
            await asyncio.sleep(0.05)
            found = await town.router.connections()


@pytest.mark.parametrize("version", [1, 2])
def test_memory_usage_excludes_inactive_file_pages(tmp_path: Path, version: int) -> None:
    assert memory(tmp_path) == (0, 0)
    assert memory(group(tmp_path, 101 * MIB, version=version)) == (100 * MIB, 1024 * MIB)
    unlimited = "max" if version == 2 else "9223372036854771712"
    assert memory(group(tmp_path, 101 * MIB, unlimited, version)) == (100 * MIB, 0)


@pytest.mark.parametrize("router_settings", [LIMITED])
async def test_gateway_is_nearly_full_while_many_connections_are_open(town: Town, tmp_path: Path) -> None:
    watch = watching(town, tmp_path)
    await watch.look()
    assert not watch.full
    assert watch.now.part < 0.2
    async with AsyncExitStack() as stack:
        for number in range(4):
            some = await stack.enter_async_context(crowd(town.router.config.port, f"127.0.1.{number + 1}"))
            await some.all_join(24, POST)
        async with asyncio.timeout(30):
            while watch.now.part < 0.8:
                await asyncio.sleep(0.05)
                await watch.look()
        found = {metric.name: metric.samples[0].value for metric in watch.collect()}
        assert found["daybreak_gateway_nearly_full"] == 1
        assert found["daybreak_gateway_connections"] >= 80
    async with asyncio.timeout(30):
        while watch.now.part >= 0.7:
            await asyncio.sleep(0.1)
            await watch.look()
    assert [metric.samples[0].value for metric in watch.collect()][-1] == 0


async def test_connections_of_client_are_limited_while_memory_is_full(town: Town, tmp_path: Path) -> None:
    await town.wake(0)
    watch = watching(town, group(tmp_path, 1000 * MIB))
    await watch.look()
    assert watch.full
    few = int(town.router.config.few * town.router.config.max_connections)
    async with crowd(town.router.config.port) as strangers:
        await strangers.all_join(3 * few, POST)
        assert (await town.router.connections()).now <= few + 5
        assert (await town.ask("honest", {"model": "big"}))[0] == 200
        group(tmp_path, 500 * MIB)
        await watch.look()
        assert not watch.full
        await strangers.all_join(3 * few, POST)
        await taken(town, 2 * few)


@pytest.mark.parametrize("router_settings", [{"max_connections": 1000, "fewest": 0.004}])
async def test_full_gateway_has_room_for_clients_with_few_connections(
    town: Town, tmp_path: Path, router_settings: dict[str, Any]
) -> None:
    await town.wake(0)
    watch, most = watching(town, tmp_path), router_settings["max_connections"]
    few, fewest = int(town.router.config.few * most), int(town.router.config.fewest * most)
    async with AsyncExitStack() as stack:
        crowds = [
            await stack.enter_async_context(crowd(town.router.config.port, f"127.0.1.{number + 1}"))
            for number in range(16)
        ]
        # Up to 80 % each client has a quarter, and then each of a dozen has its few connections.
        for some, part in zip(crowds, [*[0.24] * 3, *[town.router.config.few] * 13], strict=True):
            await some.all_join(int(part * most), POST)
            await watch.look()
        async with asyncio.timeout(30):
            while not watch.full:
                await asyncio.sleep(0.05)
                await watch.look()
        for stranger in crowds:
            await stranger.all_join(few, POST)
        before = (await town.router.connections()).now
        assert before < most
        new = await stack.enter_async_context(crowd(town.router.config.port, "127.0.2.1"))
        await new.all_join(few, POST)
        assert (await town.router.connections()).now <= before + fewest + 1
        assert (await town.ask("honest", {"model": "big"}))[0] == 200


async def test_new_watch_lifts_connection_limit_if_memory_is_free_again(town: Town, tmp_path: Path) -> None:
    await watching(town, group(tmp_path, 1000 * MIB)).look()
    few = int(town.router.config.few * town.router.config.max_connections)
    async with crowd(town.router.config.port) as strangers:
        await strangers.all_join(3 * few, POST)
        assert (await town.router.connections()).now <= few + 5
        await watching(town, group(tmp_path, 500 * MIB)).look()
        await strangers.all_join(3 * few, POST)
        await taken(town, 2 * few)
