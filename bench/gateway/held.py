"""Ten thousand held requests of 100 KB: number and memory

One gateway (three HAProxies) runs with the settings that it has in a pod; the engine is simulated. The
clients run in a separate process and use enough addresses that no address uses up its share. Requests beyond
the gateway's capacity should receive 429 with `Retry-After` immediately. Then the service wakes, and every
held request should receive its answer.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

from bench import report
from bench.gateway.hostile import MEMORY_LIMIT_MIB, scene
from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.fake_serve import FakeServe
from tests.gateway.hostile import resident

REQUESTS = 10_000
BODY_BYTES = 100_000
ADDRESSES = 100
HELD_SECONDS = 60
"""Seconds for which the requests are held after all have arrived."""
COME_SECONDS = 180
"""Maximum time in seconds until all requests have arrived."""
LOOK_SECONDS = 0.5

GOALS: dict[str, report.Goal] = {
    "lost": {"max": 0},
    "held_and_refused": {"min": REQUESTS},
    "most_rss_mib": {"max": MEMORY_LIMIT_MIB},
}


async def _client(number: int, port: int, turn: asyncio.Semaphore) -> str:
    """Send one request, and return its status with whether to retry, or the error."""
    body = json.dumps({"model": "open", "messages": [{"role": "user", "content": "x" * BODY_BYTES}]}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"X-Request-Id: r{number}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    address = f"127.0.2.{number % ADDRESSES + 1}"
    try:
        async with turn:  # limits the connections per second
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            writer.write(head.encode() + body)
            await asyncio.sleep(0.1)
        answer = await reader.read()
        writer.close()
    except OSError as error:
        return type(error).__name__
    reported, _, _ = answer.partition(b"\r\n\r\n")
    status = reported[9:12].decode() or "nothing"
    return f"{status} Retry-After" if b"\r\nretry-after:" in reported.lower() else status


async def _clients(requests: int, port: int) -> Counter[str]:
    turn = asyncio.Semaphore(100)
    return Counter(await asyncio.gather(*(_client(number, port, turn) for number in range(requests))))


def _client_process(requests: int, port: int, wire: Connection) -> None:
    _many_files()
    wire.send(asyncio.run(_clients(requests, port)))


def _many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def measure(requests: int) -> tuple[dict[str, float], list[dict[str, object]]]:
    """Send all requests, hold them, and wait for their answers."""
    context = multiprocessing.get_context("spawn")
    wire, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        async with FakeServe() as serve, scene(Path(folder) / "gw", serve.address) as found:
            gateway, port = found.gateway, found.ports["open"]

            async def gate(gate: Gate, epoch: int) -> None:
                slot = Slot(service="open", gate=gate, epoch=epoch, models=("open",), max_held=2 * requests)
                await gateway.set_gate("s1", slot)

            before = resident(gateway.pid, found.router.pid, found.router.late_pid)
            await gate(Gate.CLOSED, 2)
            watch = asyncio.create_task(found.watch())
            clients = context.Process(target=_client_process, args=(requests, port, theirs), daemon=True)
            clients.start()
            began = time.monotonic()
            held = refused = 0
            while held + refused < requests and time.monotonic() < began + COME_SECONDS:
                await asyncio.sleep(LOOK_SECONDS)
                state = (await gateway.snapshot()).slots["s1"]
                held, refused = state.held, state.ends.get("hold_full", 0)
            came = time.monotonic() - began
            await asyncio.sleep(HELD_SECONDS)
            held = (await gateway.snapshot()).slots["s1"].held
            opened = time.monotonic()
            await gate(Gate.OPEN, 3)
            statuses: Counter[str] = await asyncio.to_thread(wire.recv)
            released = time.monotonic() - opened
            watch.cancel()
            clients.join()
            observed = serve.observed
    doubled = sum(count > 1 for count in observed.values())
    fine = statuses["200"] + statuses["429 Retry-After"]
    return {
        "held": held,
        "refused": refused,
        "held_and_refused": held + refused,
        "answered": statuses["200"],
        "lost": requests - fine,
        "doubled": doubled,
        "seconds_until_all_had_come": came,
        "seconds_until_all_were_answered": released,
        "calm_rss_mib": before / 2**20,
        "most_rss_mib": found.most_rss / 2**20,
    }, [dict(statuses)]


def main(requests: int = REQUESTS) -> None:
    """Measure and write `bench/results/held.json`."""
    _many_files()
    measures, runs = asyncio.run(measure(requests))
    report.write(
        "held",
        f"python -m bench.gateway.held --requests {requests}",
        measures=measures,
        goals={**GOALS, "held_and_refused": {"min": requests}},
        runs=runs,
        notes=f"{requests} requests of {BODY_BYTES // 1000} KB from {ADDRESSES} addresses, held for "
        f"{HELD_SECONDS} s after the last one arrived. Lost: neither answered with 200 nor rejected with 429 "
        "and Retry-After. RSS is that of the three HAProxies, without kernel memory.",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    main(**vars(parser.parse_args()))
