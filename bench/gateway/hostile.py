"""Honest clients and gateway memory under hostile connections

One gateway (three HAProxies) has a service that needs an API key and an open one; the backends are simulated.
Honest clients have the key, and send requests to the service's own address and to the common one. Hostile
clients use other loopback addresses and no key. They send heads that never end, declared bodies that do not
arrive, and bodies that drip. They also do not read large answers of the open service, and keep connections
idle. Each reconnects one second after it was cut. The attack runs once while the service is awake, and once
while it is asleep; at the end of the second run, the service wakes.
"""

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import socket
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp

from bench import report
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.keys import ApiKey
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router.config import RouterConfig
from daybreak.gateway.router.router import Route, Router
from tests.gateway.fake_serve import FakeServe
from tests.gateway.hostile import Crowd, resident
from tests.gateway.ports import free_ports

CONNECTIONS = 2000
HONEST = 50
SECONDS = 600
CALM_SECONDS = 20
SETTLE_SECONDS = 10
"""Seconds after the first hostile connection until the measurement begins."""
PAUSE_SECONDS = 0.2
ANSWER = 2**20
MEMORY_LIMIT_MIB = 1024
"""Memory limit of a gateway pod in the chart, in MiB."""
HONEST_ADDRESS = "127.0.0.3"
KEY = "sk-honest"

GOALS: dict[str, report.Goal] = {
    "awake_answered_part": {"min": 1.0},
    "asleep_answered_part": {"min": 1.0},
    "p99_ratio": {"max": 3.0},
    "most_rss_mib": {"max": MEMORY_LIMIT_MIB},
}

_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: h\r\n"
_LARGE = b"Content-Length: 10000000\r\n\r\n"
KINDS: dict[str, tuple[bytes, bytes]] = {
    "heads": (_HEAD + b"A: " + b"a" * 30_000, b"a"),
    "declared": (_HEAD + _LARGE, b""),
    "dripping": (_HEAD + _LARGE + b'{"messages": "' + b"x" * 40_000, b"x"),
    "readers": (_HEAD + b'Content-Length: 17\r\n\r\n{"model": "open"}', b""),
    "idle": (b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", b""),
}
"""First bytes from each kind of hostile client, and the bytes that follow every two seconds."""


@dataclass
class Honest:
    """Results of the honest clients."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    @property
    def answered(self) -> float:
        """Return the share of requests that received 200."""
        return self.statuses["200"] / max(1, self.statuses.total())


class Scene:
    """Gateway with both services, awake."""

    def __init__(self, gateway: Gateway, router: Router, serve: FakeServe) -> None:
        self.gateway = gateway
        self.router = router
        self.serve = serve
        first = gateway.config.first_port
        self.ports = {"keyed": first, "open": first + 1, "llm": router.config.port}
        self.most_rss = 0

    async def gate(self, gate: Gate, epoch: int) -> None:
        """Set the gate of the service that needs a key."""
        key = ApiKey("honest", hashlib.sha256(KEY.encode()).hexdigest())
        keyed = Slot(service="keyed", gate=gate, epoch=epoch, models=("keyed",), keys=(key,))
        await self.gateway.set_gate("s0", keyed)

    async def watch(self) -> None:
        """Sample the memory until canceled."""
        while True:
            now = resident(self.gateway.pid, self.router.pid, self.router.late_pid)
            self.most_rss = max(self.most_rss, now)
            await asyncio.sleep(0.2)


@asynccontextmanager
async def scene(folder: Path, large: Server) -> AsyncIterator[Scene]:
    """Start the gateway and both services; `large` answers for the open service."""
    port = free_ports(3)
    router = Router(RouterConfig(folder=folder, address="127.0.0.1", port=port))
    late = router.config.late_socket
    gateway = Gateway(
        GatewayConfig(folder=folder, address="127.0.0.1", first_port=port + 1, slots=2, late_socket=late)
    )
    try:
        await gateway.start()
        await router.start()
        async with FakeServe() as serve:
            found = Scene(gateway, router, serve)
            for slot, server in (("s0", serve.address), ("s1", large)):
                await gateway.set_servers(slot, [server])
            await found.gate(Gate.OPEN, 1)
            await gateway.set_gate("s1", Slot(service="open", gate=Gate.OPEN, epoch=1, models=("open",)))
            await gateway.notified_all()
            routes = {"keyed": Route(port + 1, "keyed"), "open": Route(port + 2, "open")}
            await router.set_routes(routes)
            while not all(state.servers_up for state in (await gateway.snapshot()).slots.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            yield found
    finally:
        await router.kill()
        await gateway.kill()


async def honest(found: Scene, seconds: float) -> Honest:
    """Let honest clients send requests for a number of seconds."""
    got = Honest()
    until = time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=0, local_addr=(HONEST_ADDRESS, 0))
    headers = {"Authorization": f"Bearer {KEY}"}
    body = json.dumps({"model": "keyed", "messages": [{"role": "user", "content": "x" * 2000}]}).encode()

    async def client(number: int) -> None:
        port = found.ports["keyed" if number % 2 else "llm"]
        url = f"http://127.0.0.1:{port}/v1/embeddings"
        await asyncio.sleep(PAUSE_SECONDS * number / HONEST)
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                async with clients.post(url, data=body, headers={"X-Request-Id": "honest"}) as answer:
                    await answer.read()
                    got.statuses[str(answer.status)] += 1
            except aiohttp.ClientError as error:
                got.statuses[type(error).__name__] += 1
            got.seconds.append(time.monotonic() - begun)
            await asyncio.sleep(PAUSE_SECONDS)

    async with aiohttp.ClientSession(connector=connector, headers=headers) as clients:
        await asyncio.gather(*(client(number) for number in range(HONEST)))
    return got


async def _hostile(crowd: Crowd, opening: bytes, drop: bytes) -> None:
    """Run one hostile client, which reconnects after it was cut."""
    loop = asyncio.get_running_loop()
    while True:
        one = await crowd.join(opening)
        with suppress(OSError):
            for _ in range(1000):
                await asyncio.sleep(2)
                if drop:
                    await loop.sock_sendall(one, drop)
                elif one.fileno() < 0 or _ended(one, opening):
                    break
        one.close()
        crowd.sockets.remove(one)
        await asyncio.sleep(1)


def _ended(one: socket.socket, opening: bytes) -> bool:
    """Return True if the other side has closed the connection; a client that does not read never notices."""
    if opening == KINDS["readers"][0]:
        return False
    with suppress(BlockingIOError):
        return not one.recv(65536)
    return False


async def _hostile_side(connections: int, wire: Connection) -> None:
    """Answer for the open service, then attack until this process is ended."""
    async with FakeServe() as serve:
        serve.answer_bytes = ANSWER
        wire.send(serve.address)
        ports: dict[str, int] = await asyncio.to_thread(wire.recv)
        tasks = []
        for number, (kind, (opening, drop)) in enumerate(KINDS.items()):
            own = "open" if kind == "readers" else "keyed"
            for port in (ports[own], ports["llm"]):
                crowd = Crowd(port, f"127.0.1.{number + 1}")
                tasks += [_hostile(crowd, opening, drop) for _ in range(connections // 2)]
        await asyncio.gather(*tasks)


def _hostile_process(connections: int, wire: Connection) -> None:
    asyncio.run(_hostile_side(connections, wire))


async def measure(connections: int, seconds: int) -> tuple[dict[str, float], list[dict[str, object]]]:
    """Measure without an attack, then under attack while awake and while asleep."""
    context = multiprocessing.get_context("spawn")
    wire, theirs = context.Pipe()
    hostile = context.Process(target=_hostile_process, args=(connections, theirs), daemon=True)
    hostile.start()
    try:
        large = await asyncio.to_thread(wire.recv)
        with tempfile.TemporaryDirectory() as folder:
            async with scene(Path(folder) / "gw", large) as found:
                watch = asyncio.create_task(found.watch())
                calm = await honest(found, CALM_SECONDS)
                calm_rss = found.most_rss
                wire.send(found.ports)
                await asyncio.sleep(SETTLE_SECONDS)
                awake = await honest(found, seconds)
                await found.gate(Gate.CLOSED, 2)
                asking = asyncio.create_task(honest(found, min(60, seconds)))
                await asyncio.sleep(min(60, seconds))
                await found.gate(Gate.OPEN, 3)
                asleep = await asking
                watch.cancel()
    finally:
        hostile.kill()
        hostile.join()
    runs = [{"phase": name, **dict(got.statuses)} for name, got in _phases(calm, awake, asleep)]
    p99 = [statistics.quantiles(got.seconds, n=100)[98] for got in (calm, awake)]
    return {
        "awake_answered_part": awake.answered,
        "asleep_answered_part": asleep.answered,
        "calm_p99_ms": 1000 * p99[0],
        "awake_p99_ms": 1000 * p99[1],
        "p99_ratio": p99[1] / p99[0],
        "calm_rss_mib": calm_rss / 2**20,
        "most_rss_mib": found.most_rss / 2**20,
    }, runs


def _phases(calm: Honest, awake: Honest, asleep: Honest) -> list[tuple[str, Honest]]:
    return [("calm", calm), ("awake", awake), ("asleep", asleep)]


def main(connections: int = CONNECTIONS, seconds: int = SECONDS) -> None:
    """Measure and write `bench/results/hostile.json`."""
    measures, runs = asyncio.run(measure(connections, seconds))
    report.write(
        "hostile",
        f"python -m bench.gateway.hostile --connections {connections} --seconds {seconds}",
        measures=measures,
        goals=GOALS,
        runs=runs,
        notes=f"{connections} hostile connections of each of {len(KINDS)} kinds ({', '.join(KINDS)}) "
        f"alongside {HONEST} honest clients for {seconds} s awake and up to 60 s asleep. RSS is that of the "
        "three HAProxies, without kernel memory. Honest clients and the simulated engine are one Python "
        "process, hostile clients another, and both share the gateway's cores.",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    main(**vars(parser.parse_args()))
