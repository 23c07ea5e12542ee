"""Gateway lag from a ready model to the first forwarded byte

`lag`: requests are held while the server is up. The clock starts when the part of the agent that programs
HAProxy gets the order to open the gate. It stops when the simulated model, a separate process, reads the
first byte of the first request. `all_100_released` is the time until the first byte of the last request; the
gateway releases requests at a limited pace.

`from_status` uses the whole agent and a real API server. The clock starts before the status is written, so
the write, the watch and the agent are included. It is for information only.
"""

import argparse
import asyncio
import math
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench import report
from bench.operator.reconcile import CRDS
from cluster import ControlPlane, paths
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot, SlotState
from tests.api.admin import Admin
from tests.api.objects.llmservice import tiny
from tests.api.playing.kuberay import head_labels, play_pod
from tests.gateway.agent_process import SLOTS, AgentProcess
from tests.gateway.ports import free_ports

ROUNDS = 60
MANY = 100
"""Number of requests held at once in the second measure."""
STATUS_ROUNDS = 20
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    b'Content-Type: application/json\r\nContent-Length: 17\r\n\r\n{"model": "tiny"}'
)
CLUSTER = "tiny-abcde"
GOALS: dict[str, report.Goal] = {"lag_p99_ms": {"max": 50}}


def main(rounds: int = ROUNDS, status_rounds: int = STATUS_ROUNDS) -> None:
    """Measure and write `bench/results/lag.json`."""
    one, many = asyncio.run(_lags(rounds))
    runs = [{"held": 1, "first_ms": [first for first, _ in one]}]
    runs.append(
        {"held": MANY, "first_ms": [first for first, _ in many], "all_ms": [last for _, last in many]}
    )
    measures = {
        **_summary("lag", [first for first, _ in one]),
        **_summary(f"lag_{MANY}_held", [first for first, _ in many]),
        **_summary(f"all_{MANY}_released", [last for _, last in many]),
    }
    if status_rounds:
        observed = _from_status(status_rounds)
        runs.append({"held": 1, "from_status_ms": observed})
        measures |= _summary("from_status", observed)
    report.write(
        "lag",
        f"python -m bench.gateway.lag --rounds {rounds} --status-rounds {status_rounds}",
        measures=measures,
        goals=GOALS,
        runs=runs,
        notes=f"{rounds} rounds each, and {status_rounds} from the status. p99 is the nearest rank.",
    )


def _summary(name: str, values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        f"{name}_p50_ms": report.median(ordered),
        f"{name}_p99_ms": ordered[math.ceil(0.99 * len(ordered)) - 1],
    }


@asynccontextmanager
async def _backend() -> AsyncIterator[int]:
    """Yield the port of the simulated model."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.gateway.lag_backend",
        cwd=paths.REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None  # noqa: S101 -- it is a pipe
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


async def _ask(port: int) -> int:
    """Send one request, and return the time in ns at which its first byte reached the simulated model."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(REQUEST)
        answer = await reader.read()
    finally:
        writer.close()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"no answer of the model: {answer[:200]!r}")
    return int(answer.rpartition(b"\r\n\r\n")[2])


async def _lags(rounds: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the lags of the first and the last released request in ms, with one held and with many."""
    with tempfile.TemporaryDirectory() as folder:
        config = GatewayConfig(
            folder=Path(folder) / "gateway", address="127.0.0.1", first_port=free_ports(SLOTS), slots=SLOTS
        )
        gateway = Gateway(config)
        await gateway.start()
        try:
            await gateway.notified_all()
            async with _backend() as port:
                await gateway.set_servers("s0", [Server("127.0.0.1", port)])
                await _set(gateway, Gate.CLOSED)
                await _until(gateway, lambda state: state.servers_up == 1)
                one = [await _lag(gateway, 1) for _ in range(rounds)]
                return one, [await _lag(gateway, MANY) for _ in range(rounds)]
        finally:
            await gateway.kill()


async def _set(gateway: Gateway, gate: Gate) -> None:
    await gateway.set_gate("s0", Slot(service="tiny", gate=gate, epoch=1, models=("tiny",)))


async def _until(gateway: Gateway, good: Any) -> SlotState:
    async with asyncio.timeout(60):
        while not good(state := (await gateway.snapshot()).slots["s0"]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return state


async def _lag(gateway: Gateway, held: int) -> tuple[float, float]:
    await _set(gateway, Gate.CLOSED)
    asking = [asyncio.create_task(_ask(gateway.config.first_port)) for _ in range(held)]
    await _until(gateway, lambda state: state.held == held)
    # Held requests poll every few ms, so the gate must open at a random moment between two polls.
    await asyncio.sleep(0.1 + random.random() / 10)  # noqa: S311
    began = time.monotonic_ns()
    await _set(gateway, Gate.OPEN)
    arrived = await asyncio.gather(*asking)
    return (min(arrived) - began) / 1e6, (max(arrived) - began) / 1e6


def _from_status(rounds: int) -> list[float]:
    """Return the times in ms from the write of the gate to the first byte, with the whole agent."""
    with (
        ControlPlane(paths.control_plane("bench-lag"), crds=[CRDS]) as plane,
        tempfile.TemporaryDirectory() as folder,
    ):
        return asyncio.run(_with_agent(Admin(plane.kubeconfig, "default"), plane, Path(folder), rounds))


async def _with_agent(admin: Admin, plane: ControlPlane, folder: Path, rounds: int) -> list[float]:
    taken = []
    async with _backend() as port:
        agent = AgentProcess(plane.kubeconfig, "default", folder, port, drain_seconds=1)
        async with agent.running():
            admin.create(tiny("tiny"))
            play_pod(admin, "tiny-head", head_labels("tiny", CLUSTER))
            for number in range(rounds):
                _write_gate(admin, agent, "Closed", 2 * number + 1)
                await agent.until(
                    "tiny/tiny", lambda observed: observed.gate == "closed" and observed.servers_up == 1
                )
                asking = asyncio.create_task(_ask(agent.first_port))
                await agent.until("tiny/tiny", lambda observed: observed.held == 1)
                began = time.monotonic_ns()
                await asyncio.to_thread(_write_gate, admin, agent, "Open", 2 * number + 2)
                taken.append((await asking - began) / 1e6)
    return taken


def _write_gate(admin: Admin, agent: AgentProcess, state: str, epoch: int) -> None:
    model = {"name": "tiny", "state": state, "epoch": epoch, "holdSeconds": 300}
    model |= {"phase": "Awake", "phaseTransitionTime": "2026-01-01T00:00:00Z"}
    gate = {"port": agent.first_port, "backends": [{"cluster": CLUSTER}], "models": [model]}
    admin.merge("LLMService", "tiny", {"status": {"gate": gate}}, "status")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--status-rounds", type=int, default=STATUS_ROUNDS)
    main(**vars(parser.parse_args()))
