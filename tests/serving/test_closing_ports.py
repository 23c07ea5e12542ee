"""A replica's port that is closed under a steady stream of requests costs none of them."""

import asyncio
import contextlib
import json
from pathlib import Path

import aiohttp

from bench.ray import environment as ray_environment
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.conftest import running

PROGRAM = Path(__file__).with_name("closing_ports.py")
CLOSED = 5
CLIENTS = 16


async def test_port_closed_before_gateway_sees_notice_loses_no_request(
    tmp_path: Path,
) -> None:
    """A gateway asks a server that is up only now and then, so the notice is over before it has asked."""
    python = await asyncio.to_thread(ray_environment.python)
    program = await asyncio.create_subprocess_exec(
        *[str(python), str(PROGRAM), str(CLOSED + 1)],
        env=ray_environment.variables({}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    answers: dict[str, int] = {}
    ended = asyncio.Event()
    try:
        ports = json.loads(await program.stdout.readline())
        async with running(tmp_path / "gw") as bench:
            await bench.gateway.set_servers("s0", [Server("127.0.0.1", port) for port in ports])
            await bench.gateway.set_gate(
                "s0", Slot("qwen", Gate.OPEN, 1, models=("big",), replicas_listen=True)
            )
            await bench.until(lambda state: state.servers_up == len(ports))

            async def client(number: int) -> None:
                while not ended.is_set():
                    name = f"c{number}-{len(answers)}"
                    answers[name] = 0
                    with contextlib.suppress(aiohttp.ClientError):
                        answers[name] = (await bench.ask(name))[0]

            async with asyncio.TaskGroup() as clients:
                for number in range(CLIENTS):
                    clients.create_task(client(number))
                try:
                    for number in range(CLOSED):
                        sent = len(answers)
                        async with asyncio.timeout(120):
                            while len(answers) < sent + 4 * CLIENTS:  # noqa: ASYNC110
                                await asyncio.sleep(0.01)
                            program.stdin.write(b"%d\n" % number)
                            assert json.loads(await program.stdout.readline()) == "closed"
                finally:
                    ended.set()
        program.stdin.close()
        begun: dict[str, int] = json.loads(await program.stdout.readline())
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()
    assert {name: status for name, status in answers.items() if status != 200} == {}
    assert {name: count for name, count in begun.items() if count != 1} == {}
    assert set(begun) == set(answers)
