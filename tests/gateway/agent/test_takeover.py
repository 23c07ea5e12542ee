"""An agent that takes over an already programmed HAProxy: nothing of it is lost, and nothing closes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from daybreak.gateway.agent.feed import Feed
from daybreak.gateway.agent.programmer import Programmer
from daybreak.gateway.desired.gates import Ports
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.table import Gate
from tests.gateway.village import Village, village


async def takeover(town: Village, meanwhile: Callable[[], Awaitable[Any]] | None = None) -> None:
    """End the programmer as a crash would, and begin with another one that knows nothing."""
    for task in town._tasks:
        task.cancel()
    await asyncio.gather(*town._tasks, return_exceptions=True)
    await town.gateway.leave()
    if meanwhile is not None:
        await meanwhile()
    town.gateway = Gateway(town.config, town.gateway._haproxy._process)
    assert await town.gateway.adopt()
    town.feed = Feed(town.gateway)
    town.programmer = Programmer(
        town.cache,
        town.gateway,
        namespace="ns",
        ports=Ports(serve=town.port, replica=town.port),
        keys=KeyFiles(town.config.folder / "keys"),
        on_programmed=town.feed.poke,
    )
    await town.programmer.adopt()
    town._tasks = [asyncio.create_task(run()) for run in (town.programmer.run, town.feed.run)]
    async with asyncio.timeout(30):
        while not town.feed.received > town.programmer.completed:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def commands(town: Village, text: str) -> str:
    return await town.gateway._api.command(text)


async def test_takeover_preserves_held_and_running_requests_of_several_models(tmp_path: Path) -> None:
    async with village(tmp_path, "a", "b") as town:
        town.spec = {"a": {"serve": {"maxOngoingRequests": 3}}}
        await town.gate(a="Open", b="Closed")
        for serve in town.replicas.values():
            serve.hold_answers = True
        passed = town.begin("passed", b'{"model":"a"}')
        held = town.begin("held", b'{"model":"b"}')
        front = town.begin("front", b"{}")
        await town.until("a", lambda report: report.in_flight == 1)
        await town.until("b", lambda report: report.held == 1)
        await town.until("", lambda report: report.held == 1)
        before = (await commands(town, "daybreak known"), await commands(town, "show servers state"))
        await takeover(town)
        assert (await town.until("a", lambda report: report.in_flight == 1)).arrivals == 1
        assert (await town.until("b", lambda report: report.held == 1)).gate == "closed"
        assert (await town.until("", lambda report: report.held == 1)).gate == "closed"
        assert await commands(town, "daybreak known") == before[0]
        servers = await commands(town, "show servers state")
        assert [line.split()[3:8] for line in servers.splitlines()[2:]] == [
            line.split()[3:8] for line in before[1].splitlines()[2:]
        ]
        for serve in town.replicas.values():
            serve.finish.set()
        assert (await passed)[0] == 200
        await town.gate(b="Open")
        assert [(await each)[0] for each in (held, front)] == [200, 200]
        assert town.observed()["a"] == {"passed": 1}
        assert town.observed()["b"] == {"held": 1}


async def test_open_gate_never_closes_during_takeover(tmp_path: Path) -> None:
    async with village(tmp_path, "a", "b") as town:
        await town.gate(a="Open", b="Open")
        gates: set[tuple[Gate, bool]] = set()
        watching = True

        async def watch() -> None:
            other = Gateway(town.config, town.gateway._haproxy._process)
            assert await other.adopt()
            while watching:
                snapshot = await other.snapshot()
                gates.update((state.gate, state.servers_up > 0) for state in snapshot.slots.values())
                await asyncio.sleep(0)
            await other.leave()

        watcher = asyncio.create_task(watch())
        for _ in range(3):
            await takeover(town)
        watching = False
        await watcher
        assert gates == {(Gate.OPEN, True)}


async def test_takeover_rejects_held_requests_and_drains_streams_of_deleted_models(tmp_path: Path) -> None:
    async with village(tmp_path, "a", "b", "c") as town:
        await town.gate(a="Open", b="Open", c="Closed")
        stream = asyncio.create_task(town.stream(b'{"model":"b"}'))
        await town.until("b", lambda report: report.in_flight == 1)
        held = town.begin("held", b'{"model":"c"}')
        await town.until("c", lambda report: report.held == 1)

        async def go() -> None:
            town.write(b=None, c=None)

        await takeover(town, go)
        assert (await held)[0] == 404
        # It is reported until its last stream has ended, also by the agent after the next one.
        await town.until("b", lambda report: report.in_flight == 1)
        await takeover(town)
        assert (await town.until("b", lambda report: report.in_flight == 1)).gate == "closed"
        town.replicas["b"].finish.set()
        assert b"[DONE]" in await stream
        async with asyncio.timeout(30):
            while town.report("b") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (await town.ask("again", b'{"model":"a"}'))[0] == 200


async def test_held_request_gets_404_if_service_is_deleted_before_takeover(tmp_path: Path) -> None:
    async with village(tmp_path, "a") as town:
        await town.gate(a="Closed")
        held = town.begin("held", b'{"model":"a"}')
        await town.until("a", lambda report: report.held == 1)

        async def go() -> None:
            town.gone()

        await takeover(town, go)
        assert (await held)[0] == 404
        assert await commands(town, "daybreak known") == '{"gates":[]}'


async def test_takeover_completes_half_added_server(tmp_path: Path) -> None:
    async with village(tmp_path, "a") as town:
        await town.gate(a="Open")
        server = next(iter(town.programmer._reported[0].servers["s0"]))

        async def half() -> None:
            api = town.gateway._api
            await api.connect()
            await api.expect(f"set server s0/{server.name} state maint")
            await api.command(f"del server s0/{server.name}")
            await api.expect(f"add server s0/{server.name} {server.words}", "New server registered")
            api.close()

        await takeover(town, half)
        # Serve's proxy, its backup, answers until it is up.
        async with asyncio.timeout(30):
            while not town.observed()["a"]:
                assert (await town.ask("one", b'{"model":"a"}'))[0] == 200
