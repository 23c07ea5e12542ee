"""Cost of a route, and exact shares over two gateways

In each round, clients send requests for the same model to the common address in three ways. They use its own
name, a route with two backends, and a route with matches by header and by `user` that do not apply. With two
backends, the gateway rewrites the body and counts the requests of each backend. The order rotates from round
to round. All processes share this machine's cores, so the comparison uses the CPU time per request of the
gateway's HAProxies. A single answer other than 200 voids the whole run.
"""

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from bench import report
from bench.gateway import steady_paths
from bench.gateway.steady_paths import CHAT, MODEL
from bench.gateway.steady_programs import BOMBARDIER, load
from cluster.build import build
from cluster.tools.report import Report
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router.config import RouterConfig
from daybreak.gateway.router.router import Route, Router
from daybreak.gateway.router.shares import Compared, Match, Share, Way
from tests.gateway.ports import free_ports

ROUNDS = 5
SECONDS = 5.0
CLIENTS = 32
SHARES = (99, 1)
REQUESTS = 10_000
"""Number of requests over both gateways for the shares."""
BODIES = {"": "", "_100k": "-100k"}
"""Suffix of a measure, and the suffix of the requests that it uses."""
NAMES = ("own", "route", "matches")
GOALS: dict[str, report.Goal] = {
    "route_cpu_ratio": {"max": 1.5},
    "matches_cpu_ratio": {"max": 1.5},
    "route_cpu_ratio_100k": {"max": 1.5},
    "share_error": {"max": 0.01},
}


class Pair:
    """HAProxies of one gateway: the one that holds, and those of the common address."""

    def __init__(self, gateway: Gateway, router: Router) -> None:
        self.router = router
        self.url = f"http://127.0.0.1:{router.config.port}{CHAT}"
        self._processes = [psutil.Process(pid) for pid in (gateway.pid, router.pid, router.late_pid)]

    def cpu_seconds(self) -> float:
        """Return the user and system time that the HAProxies have used so far."""
        return sum(sum(each.cpu_times()[:2]) for each in self._processes)


@asynccontextmanager
async def pair(folder: Path, port: int) -> AsyncIterator[Pair]:
    """Start one gateway with two services, both backed by the model on a port."""
    first = free_ports(3)
    router = Router(RouterConfig(folder=folder, address="127.0.0.1", port=first))
    config = GatewayConfig(folder=folder, address="127.0.0.1", first_port=first + 1, slots=2)
    gateway = Gateway(config)
    try:
        await gateway.start()
        await router.start()
        for slot, name in enumerate((MODEL, "next")):
            await gateway.set_servers(f"s{slot}", [Server("127.0.0.1", port)])
            await gateway.set_gate(f"s{slot}", Slot(service=name, gate=Gate.OPEN, epoch=1, models=(name,)))
        await gateway.notified_all()
        await router.set_routes({MODEL: Route(first + 1, MODEL)}, _shares(first + 1))
        async with asyncio.timeout(60):
            while not all(state.servers_up for state in (await gateway.snapshot()).slots.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield Pair(gateway, router)
    finally:
        await router.kill()
        await gateway.kill()


def _shares(first_port: int) -> list[Share]:
    ways = tuple(
        Way(name, name, first_port + slot, weight)
        for slot, (name, weight) in enumerate(zip((MODEL, "next"), SHARES, strict=True))
    )
    header = Match(ways, headers=(("x-stage", Compared.PATTERN, "^beta%-[a-z]+$"),))
    matches = (header, Match(ways, users=("nobody",)))
    return [Share("route", ("route",), ways), Share("matches", ("matches",), ways, matches=matches)]


async def measured(
    folder: Path, port: int, rounds: int, seconds: float
) -> tuple[list[dict[str, Any]], float]:
    """Return all runs, and the largest error of a share as a fraction of the share."""
    async with AsyncExitStack() as stack:
        pairs = [await stack.enter_async_context(pair(folder / str(number), port)) for number in range(2)]
        runs = []
        for number in range(rounds):
            turned = NAMES[number % len(NAMES) :] + NAMES[: number % len(NAMES)]
            for end, size in BODIES.items():
                for name in turned:
                    row = await asyncio.to_thread(_run, pairs[0], folder, name, size, seconds)
                    runs.append({"round": number + 1, "path": name + end, **row})
                    print(f"routes: round {number + 1}, {name}{end}", flush=True)
        return runs, await _share_error(pairs, folder)


def _body(folder: Path, name: str, size: str) -> Path:
    text = steady_paths.request(size)
    model = MODEL if name == "own" else name
    body = folder / f"{name}{size}.json"
    body.write_bytes(text.replace(f'"model": "{MODEL}"'.encode(), f'"model": "{model}"'.encode()))
    return body


def _run(one: Pair, folder: Path, name: str, size: str, seconds: float) -> dict[str, Any]:
    body, before = _body(folder, name, size), one.cpu_seconds()
    observed = load(one.url, (), body, CLIENTS, seconds)
    used = one.cpu_seconds() - before
    return {
        "requests": observed.requests,
        "p50_ms": round(observed.p50_ms, 3),
        "p99_ms": round(observed.p99_ms, 3),
        "cpu_us_per_request": round(1e6 * used / observed.requests, 1),
    }


async def _share_error(pairs: Sequence[Pair], folder: Path) -> float:
    """Send two thirds of the requests to one gateway, and return the error of the shares."""
    body, before = _body(folder, "route", ""), [await each.router.shares() for each in pairs]
    left = iter(range(REQUESTS))
    text = body.read_bytes()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as clients:

        async def client() -> None:
            for number in left:
                async with clients.post(pairs[number % 3 % len(pairs)].url, data=text) as answer:
                    await answer.read()

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
    got = [0, 0]
    for each, then in zip(pairs, before, strict=True):
        now = (await each.router.shares())["route"]
        for at, name in enumerate((MODEL, "next")):
            way = f"{name}/{name}"
            got[at] += now[way] - then.get("route", {}).get(way, 0)
    total = sum(got)
    assert total == REQUESTS, got  # noqa: S101 -- no result without
    desired = [total * weight / sum(SHARES) for weight in SHARES]
    return max(abs(one - other) / other for one, other in zip(got, desired, strict=True))


def main(rounds: int = ROUNDS, seconds: float = SECONDS) -> None:
    """Measure and write `bench/results/routes.json`."""
    build([BOMBARDIER], Report())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with steady_paths.model(folder) as ways:
            runs, error = asyncio.run(measured(folder, ways[0].port, rounds, seconds))
    report.write(
        "routes",
        f"python -m bench.gateway.routes --rounds {rounds} --seconds {seconds:g}",
        measures=measures(runs) | {"share_error": error},
        goals=GOALS,
        runs=runs,
        notes=(
            f"Medians of {rounds} rounds of {seconds:g} s with {CLIENTS} clients. Requests have 2 KB, or 100 "
            "KB if the measure's name ends in 100k. A ratio is the CPU time of a gateway's HAProxies per "
            "request with a route's name, divided by that with the model's own name at the same address in "
            f"the same round. Shares: {REQUESTS} requests through two gateways, two thirds of them through "
            f"one gateway, with weights {SHARES[0]} and {SHARES[1]}; the largest relative error of a share."
        ),
    )


def measures(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the medians over the rounds."""
    rows = {(run["round"], run["path"]): run for run in runs}
    rounds = sorted({run["round"] for run in runs})
    found: dict[str, float] = {}
    for end in BODIES:
        for name in NAMES:
            costs = [float(rows[each, name + end]["cpu_us_per_request"]) for each in rounds]
            found[f"{name}_cpu_us_per_request{end}"] = report.median(costs)
            if name != "own":
                own = [float(rows[each, "own" + end]["cpu_us_per_request"]) for each in rounds]
                ratios = [cost / beside for cost, beside in zip(costs, own, strict=True)]
                found[f"{name}_cpu_ratio{end}"] = report.median(ratios)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    main(**vars(parser.parse_args()))
