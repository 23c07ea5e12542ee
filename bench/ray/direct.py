"""Direct ports of replicas, compared with Serve's proxy and ingress

The default path is Serve's proxy, Ray Serve LLM's ingress and then a replica. The direct path is the HAProxy
of Daybreak's gateway and then the same replica's direct port. Both run here as in a cluster. The operator's
builders create the RayService's configuration and the pods' settings from the tiny sample. Ray, the gateway
and the replicas are processes of this machine. Requests on the default path skip the gateway, which favors
that path.

First, a simulated engine (`direct_pace`) ensures that only the paths cost anything. A replica has 6,000
tokens per second for all its streams, and no stream gets more than 100. Therefore 64 clients use all of them,
and 6 clients use 600. One replica is measured with both rates; eight replicas are measured with 600, which
two cores can carry. The cost of the simulated engine alone is measured and subtracted. CPU time is that of
the processes between engine and client (`gateway`, `proxy`, `ingress`, and `replica` with vLLM's own app). If
the cores are fully used, tokens arrive late, and several share one chunk, as with vLLM. They then cost less
per token on the slower path; therefore the plain ratio is the one at 600.

Then vLLM runs with the tiny model, in turns with `vllm serve` with the same arguments.

The measurement needs the packages of `images/ray-cpu`: the first run installs them to `.daybreak/ray-venv`.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import report
from bench.gpu import cores, models
from bench.gpu.clients import Lengths
from bench.gpu.engine import Engine
from bench.gpu.load import Window, load, words
from bench.ray import environment as ray_environment
from bench.ray.direct_ways import Stage, Way
from cluster import paths
from cluster.tools.programs import run as run_program

ROUNDS = 1
SECONDS = 6.0
REPLICAS = 8
CLIENTS = {600: 6, 6000: 64}
"""Clients of a replica by the simulated engine's tokens per second for that number of clients."""
LENGTHS = Lengths()
TINY_ROUNDS = 4
TINY_SECONDS = 8.0
TINY_CLIENTS = 4
TINY_LENGTHS = Lengths(60.0, 60.0, most=256)
PORT = 27000
_RAMP_SECONDS = 2.0
_REST_SECONDS = 1.0
_ENGINE_SECONDS = 300.0
_IDLE = 0.15
"""Maximum number of cores that Serve's proxy and ingress may use together without requests."""

_OF_ALL = 7.5 / 8
"""Minimum throughput of several replicas, as a fraction of the same multiple of one replica."""


def goals(replicas: int) -> dict[str, report.Goal]:
    """Return the goals. Eight replicas of 6,000 need more than two cores: there the CPU time is judged."""
    return {
        "cpu_ratio_600_x1": {"max": 0.25},
        "cpu_ratio_6000_x1": {"max": 0.25},
        f"direct_600_x{replicas}_to_x1": {"min": _OF_ALL * replicas},
        "tiny_requests_ratio": {"min": 0.97},
        "tiny_tokens_ratio": {"min": 0.97},
    }


def main(
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    replicas: int = REPLICAS,
    tiny_rounds: int = TINY_ROUNDS,
    python: Path | None = None,
) -> None:
    """Measure and write `bench/results/direct.json`."""
    python = python or ray_environment.python()
    # The folder's path is short, because Ray creates its sockets in it.
    with tempfile.TemporaryDirectory(prefix="db-", dir="/tmp") as name:
        folder = Path(name)
        model = models.make("tiny", folder)
        stage = Stage(folder, model, python, PORT)
        vocabulary = words(model / "tokenizer.json")
        try:
            runs = [_alone(python, clients) for clients in CLIENTS.values()]
            stage.start()
            runs += _stand_ins(stage, vocabulary, rounds, seconds, replicas)
            runs += _tiny(stage, vocabulary, tiny_rounds)
        finally:
            stage.stop()
    report.write(
        "direct",
        f"python -m bench.ray.direct --rounds {rounds} --seconds {seconds:g} --replicas {replicas} "
        f"--tiny-rounds {tiny_rounds}",
        measures=measures(runs),
        goals=goals(replicas),
        runs=runs,
        notes=_notes(rounds, seconds, replicas, tiny_rounds),
    )


def _alone(python: Path, streams: int) -> dict[str, Any]:
    """Return the cost of the simulated engine if its chunks are not forwarded."""
    command: list[str | Path] = [python, "-m", "bench.ray.direct_pace", "--streams", str(streams)]
    found = json.loads(run_program(command, directory=paths.REPOSITORY, timeout=60))
    _write(f"the stand-in alone: {found}")
    return {"path": "alone", **found}


def _stand_ins(
    stage: Stage, vocabulary: Sequence[tuple[str, int]], rounds: int, seconds: float, replicas: int
) -> Iterator[dict[str, Any]]:
    stage.stand_ins(replicas)
    for count in (1, replicas):
        began = time.monotonic()
        ports = stage.serve(count)
        if len(ports) != count:
            raise RuntimeError(f"{len(ports)} of {count} replicas listen at a direct port")
        _write(f"{count} replicas with the stand-in after {time.monotonic() - began:.0f} s")
        with stage.gateway(ports, f"x{count}") as direct:
            for way in (stage.proxy, direct):
                _warm_up(stage, way, vocabulary, CLIENTS[600] * count)
            for pace, clients in _paces(count).items():
                for number in range(rounds):
                    ways = (stage.proxy, direct)
                    for way in ways if number % 2 == 0 else ways[::-1]:
                        window = Window(seconds, _RAMP_SECONDS)
                        observed = _load(stage, way, vocabulary, clients * count, window, LENGTHS)
                        yield {"round": number + 1, "pace": pace, "replicas": count, **observed}
    stage.rest()


def _paces(replicas: int) -> Mapping[int, int]:
    """Return the paces for a number of replicas; several use only the slow one, which two cores carry."""
    return CLIENTS if replicas == 1 else {pace: CLIENTS[pace] for pace in (min(CLIENTS),)}


def _tiny(stage: Stage, vocabulary: Sequence[tuple[str, int]], rounds: int) -> Iterator[dict[str, Any]]:
    """Measure Daybreak's direct path and `vllm serve` in turns; both run all the time."""
    with _vllm(stage) as engine:
        stage.engine()
        [port] = stage.serve(1)
        engine.wait(_ENGINE_SECONDS)
        with stage.gateway([port], "tiny") as direct:
            ways = (direct, Way("vllm-serve", engine.address))
            for way in ways:
                _warm_up(stage, way, vocabulary, TINY_CLIENTS)
            for number in range(rounds):
                for way in ways if number % 2 == 0 else ways[::-1]:
                    window = Window(TINY_SECONDS, _RAMP_SECONDS)
                    observed = _load(stage, way, vocabulary, TINY_CLIENTS, window, TINY_LENGTHS, engine)
                    yield {"round": number + 1, "engine": "vllm", **observed}


@contextmanager
def _vllm(stage: Stage) -> Iterator[Engine]:
    engine = Engine(stage.rendered, stage.ports.engine, stage.folder, stage.variables, python=stage.python)
    try:
        yield engine
    finally:
        engine.stop()


def _warm_up(stage: Stage, way: Way, vocabulary: Sequence[tuple[str, int]], clients: int) -> None:
    """Send the first requests, which are slow, and let the gateway find the replicas."""
    load(
        way.address,
        stage.rendered.model,
        vocabulary,
        clients,
        Window(1.0, _RAMP_SECONDS),
        lambda: cores.used([]),
        TINY_LENGTHS,
        stage.python,
    )


def _load(
    stage: Stage,
    way: Way,
    vocabulary: Sequence[tuple[str, int]],
    clients: int,
    window: Window,
    lengths: Lengths,
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Run the load on one path. Raises RuntimeError if a request did not receive its expected answer."""

    def look() -> cores.Used:
        return cores.used([*stage.processes(way), *(engine.processes() if engine else ())])

    observed = load(
        way.address, stage.rendered.model, vocabulary, clients, window, look, lengths, stage.python
    )
    # Requests that the replicas reject would go to Serve's proxy, the backup.
    strayed = (
        way.name == "direct"
        and sum(observed["cores"].get(part, 0.0) for part in ("proxy", "ingress")) > _IDLE
    )
    if observed["errors"] or observed["wrong_lengths"] or strayed:
        raise RuntimeError(f"{way.name}, {clients} clients: {observed}")
    _write(
        f"{way.name}, {clients} clients: {observed['tokens_per_second']:.0f} tokens/s, "
        f"TTFT {observed['ttft_p50_ms']:.0f} ms, cores {observed['cores']}"
    )
    time.sleep(_REST_SECONDS)
    return {"path": way.name, **observed}


def measures(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the medians over the rounds, and their ratios."""
    alone = {run["streams"]: run["cpu_ms_per_1000_tokens"] for run in runs if run["path"] == "alone"}
    found: dict[str, float] = {
        f"stand_in_alone_{pace}_cpu_ms_per_1000_tokens": alone[clients] for pace, clients in CLIENTS.items()
    }
    paced = [run for run in runs if "pace" in run]
    counts = sorted({run["replicas"] for run in paced})
    for pace, clients in CLIENTS.items():
        for count in counts:
            if pace not in _paces(count):
                continue
            for way in ("today", "direct"):
                those = [
                    run for run in paced if (run["pace"], run["replicas"], run["path"]) == (pace, count, way)
                ]
                key = f"{way}_{pace}_x{count}"
                found[f"{key}_tokens_per_second"] = _median(those, "tokens_per_second")
                found[f"{key}_ttft_p50_ms"] = _median(those, "ttft_p50_ms")
                found[f"{key}_cpu_ms_per_1000_tokens"] = report.median(
                    [cpu_ms(run) - alone[clients] for run in those]
                )
            today, direct = (
                found[f"{way}_{pace}_x{count}_cpu_ms_per_1000_tokens"] for way in ("today", "direct")
            )
            found[f"cpu_ratio_{pace}_x{count}"] = direct / today
        for way in ("today", "direct"):
            if pace not in _paces(counts[-1]):
                break
            one, most = (
                found[f"{way}_{pace}_x{count}_tokens_per_second"] for count in (counts[0], counts[-1])
            )
            found[f"{way}_{pace}_x{counts[-1]}_to_x1"] = most / one
    return found | _tiny_measures([run for run in runs if run.get("engine") == "vllm"])


def _tiny_measures(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the ratios of Daybreak's direct path to `vllm serve` per round, and their median."""
    found: dict[str, float] = {}
    by_way = {
        way: sorted((run for run in runs if run["path"] == way), key=lambda run: int(run["round"]))
        for way in ("direct", "vllm-serve")
    }
    if not runs:
        return found
    for way, those in by_way.items():
        key = way.replace("-", "_")
        for name in ("requests_per_second", "tokens_per_second", "ttft_p50_ms"):
            found[f"tiny_{key}_{name}"] = _median(those, name)
    for name, what in (("requests", "requests_per_second"), ("tokens", "tokens_per_second")):
        pairs = zip(by_way["direct"], by_way["vllm-serve"], strict=True)
        found[f"tiny_{name}_ratio"] = report.median([ours[what] / other[what] for ours, other in pairs])
    return found


def cpu_ms(run: Mapping[str, Any]) -> float:
    """Return the CPU milliseconds of the processes between engine and client for 1,000 streamed tokens."""
    return 1e6 * cores.in_front(run["cores"]) / float(run["tokens_per_second"])


def _median(runs: Sequence[Mapping[str, Any]], name: str) -> float:
    return report.median([run[name] for run in runs])


def _notes(rounds: int, seconds: float, replicas: int, tiny_rounds: int) -> str:
    return (
        "`600` and `6000` are the tokens per second of one replica of the simulated engine; `x1` and "
        f"`x{replicas}` are the numbers of replicas. Alternating rounds of {seconds:g} s: {rounds}. Lengths "
        f"are log-normal, with {LENGTHS.mean_in:g} input and {LENGTHS.mean_out:g} output tokens on average. "
        f"Clients, paths and replicas share the cores: {replicas} replicas with 6,000 tokens per second need "
        "more than two cores, so they have 600. vLLM: "
        f"{tiny_rounds} rounds of {TINY_SECONDS:g} s with {TINY_CLIENTS} clients; ratios are medians of the "
        f"rounds' ratios."
    )


def _write(text: str) -> None:
    print(f"direct {time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of each measurement with the stand-in"
    )
    parser.add_argument("--replicas", type=int, default=REPLICAS, help="how many are compared with one")
    parser.add_argument("--tiny-rounds", type=int, default=TINY_ROUNDS)
    parser.add_argument(
        "--python", type=Path, help="has images/ray-cpu's packages (default: .daybreak/ray-venv)"
    )
    main(**vars(parser.parse_args()))
