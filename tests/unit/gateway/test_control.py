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


async def test_control_socket_is_accessible_to_owner_and_group_only(control: Control, tmp_path: Path) -> None:
    assert stat.S_IMODE(control_socket(tmp_path).stat().st_mode) == 0o660


async def test_heartbeat_receives_memory_and_drain_time(
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


async def test_heartbeat_waits_for_supervisor_until_pod_terminates(tmp_path: Path) -> None:
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


async def test_give_up_request_reports_haproxy_as_broken(control: Control, tmp_path: Path) -> None:
    broken = asyncio.create_task(control.broken())
    await asyncio.sleep(0)
    await ask(control_socket(tmp_path), {"do": "give up", "why": "it hangs"})
    assert await broken == "it hangs"


async def test_control_reports_ended_haproxy_and_leave_request(control: Control, tmp_path: Path) -> None:
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


async def test_ask_fails_if_no_supervisor_listens(tmp_path: Path) -> None:
    with pytest.raises(GatewayFailed, match="does not answer"):
        await ask(control_socket(tmp_path), SAID)
