"""HAProxy of Daybreak's gateway with its configuration in a cluster, open for one service.

    python -m bench.gpu.gateway --port 20000 --model llama --proxy 8000 [--replica 8100] --folder FOLDER

In a cluster, an agent configures HAProxy with services and pods. Here it is configured once: with the
replicas and Serve's proxy as backup, or with the proxy alone. `--replica` can be repeated. Like the agent,
the program asks replicas whether they inspect the fields of bodies themselves, and leaves bodies to those
that do.
"""

import argparse
import asyncio
import contextlib
import signal
from collections.abc import Sequence
from pathlib import Path

from daybreak.gateway.agent.proofs import Proofs, with_guard
from daybreak.gateway.desired.gates import DesiredGate
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot

_HOST = "127.0.0.1"
_SLOTS = 16
_PROOF_SECONDS = 20.0
"""Seconds to wait for the replicas' answers; replicas without an answer by then are not awaited."""


def servers(proxy: int, replicas: Sequence[int], limit: int) -> tuple[Server, ...]:
    """Return the servers of the service's backend, as in `daybreak.gateway.desired.gates.wanted`."""
    own = (Server(_HOST, replica, max_connections=limit, pod=f"replica-{replica}") for replica in replicas)
    return *own, Server(_HOST, proxy, backup=bool(replicas))


async def with_proofs(gate: DesiredGate) -> DesiredGate:
    """Return a gate as the agent builds it after it asked the replicas whether they inspect bodies."""
    name, answered = gate.slot.service, asyncio.Event()
    proofs = Proofs(lambda _: answered.set())
    proofs.watch(name, [gate])
    asking = asyncio.create_task(proofs.run())
    try:
        async with asyncio.timeout(_PROOF_SECONDS):
            while None in [proofs.of(server) for server in gate.servers if server.pod]:
                await answered.wait()
                answered.clear()
    except TimeoutError:
        pass  # unknown, so the gateway inspects bodies itself
    finally:
        asking.cancel()
    return with_guard(gate, proofs, None)


async def run(port: int, model: str, proxy: int, replicas: Sequence[int], limit: int, folder: Path) -> None:
    """Serve until a signal ends the program."""
    gateway = Gateway(GatewayConfig(folder=folder, address=_HOST, first_port=port, slots=_SLOTS))
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await gateway.start()
    try:
        await gateway.notified_all()
        service = Slot(
            service="gpu-check",
            gate=Gate.OPEN,
            epoch=1,
            models=(model,),
            replicas_listen=bool(replicas),
        )
        gate = await with_proofs(DesiredGate(service, servers(proxy, replicas, limit)))
        print(f"bodies are looked at by {'replicas' if gate.slot.guarded else 'the gateway'}", flush=True)
        await gateway.set_servers("s0", gate.servers)
        await gateway.set_gate("s0", gate.slot)
        await ended.wait()
    finally:
        await gateway.kill()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Our gateway before one service.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--proxy", type=int, required=True, help="port of Serve's proxy")
    parser.add_argument(
        "--replica", type=int, dest="replicas", action="append", default=[], help="a replica's own port"
    )
    parser.add_argument("--limit", type=int, default=256, help="requests that a replica gets at a time")
    parser.add_argument("--folder", type=Path, required=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
