"""The supervisor's socket and the agent's requests to it."""

import asyncio
import signal
import stat
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.agent.beats import Heartbeat
from daybreak.gateway.haproxy.processes import GatewayFailed, SupervisedProcess, ask
from daybreak.gateway.supervisor.control import Control, control_socket

ANSWER = {"draining": 2.5, "memory": (3, 4)}
SAID = {"do": "beat", "unready": "the agent starts", "unhealthy": ""}


@pytest.fixture
def received() -> list[Mapping[str, Any]]:
    return []


@pytest.fixture
async def control(tmp_path: Path, received: list[Mapping[str, Any]]) -> AsyncIterator[Control]:
    def beat(report: Mapping[str, Any]) -> Mapping[str, Any]:
        received.append(report)
        return ANSWER

    made = Control(tmp_path, beat)
    await made.start()
    yield made
    made.stop()


async def test_only_the_group_can_open_it(control: Control, tmp_path: Path) -> None:
    assert stat.S_IMODE(control_socket(tmp_path).stat().st_mode) == 0o660


async def test_a_beat_brings_memory_and_whether_it_is_to_end(
    control: Control, tmp_path: Path, received: list[Mapping[str, Any]]
) -> None:
    beats = Heartbeat(control_socket(tmp_path))
    assert await beats.begin(asyncio.Event())
    assert received == [SAID]
    assert beats.memory == (3, 4)
    reported: asyncio.Queue[float] = asyncio.Queue()
    speaking = asyncio.create_task(beats.run(lambda: ("", ""), reported.put_nowait))
    assert await reported.get() == 2.5
    speaking.cancel()


async def test_who_waits_for_a_supervisor_that_is_yet_to_come(tmp_path: Path) -> None:
    ending = asyncio.Event()
    waiting = asyncio.create_task(Heartbeat(control_socket(tmp_path)).begin(ending))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    ending.set()
    assert await waiting is False
    control = Control(tmp_path, lambda _: ANSWER)
    await control.start()
    # An agent that starts while the pod ends must still let the current requests finish.
    assert await Heartbeat(control_socket(tmp_path)).begin(ending)
    control.stop()


async def test_haproxies_that_are_given_up(control: Control, tmp_path: Path) -> None:
    broken = asyncio.create_task(control.broken())
    await asyncio.sleep(0)
    await ask(control_socket(tmp_path), {"do": "give up", "why": "it hangs"})
    assert await broken == "it hangs"


async def test_an_end(control: Control, tmp_path: Path) -> None:
    await control.all_ended()
    process = SupervisedProcess(control_socket(tmp_path), "hold")
    await process.start(tmp_path / "no.cfg")  # HAProxy reports the missing file and exits
    ended, broken = asyncio.create_task(control.all_ended()), asyncio.create_task(control.broken())
    assert await process.wait() == 1
    await ended
    message = await broken
    assert message.startswith("HAProxy has ended: hold: ")
    assert "no.cfg" in message
    await process.signal(signal.SIGUSR1)
    assert not control.left.is_set()
    await ask(control_socket(tmp_path), {"do": "leave"})
    assert control.left.is_set()


async def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(GatewayFailed, match="does not answer"):
        await ask(control_socket(tmp_path), SAID)
