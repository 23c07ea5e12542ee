"""A real load on a real HTTP server of loopback: lengths, clients, rates, and the engine's own words."""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml

from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.kinds.llmbenchmark.objects.order import order
from daybreak.kinds.llmbenchmark.objects.target import target
from daybreak_runtime.benchmark.engines import command, flags
from daybreak_runtime.benchmark.load import measure as module
from daybreak_runtime.benchmark.load.awake import awake
from daybreak_runtime.benchmark.load.clients import arrivals
from daybreak_runtime.benchmark.load.engine_metrics import read, summary
from daybreak_runtime.benchmark.load.lengths import requests
from daybreak_runtime.benchmark.load.measure import Level, Target, jobs, measure
from daybreak_runtime.benchmark.order import Engine, Lengths, Load, Objective, Order, Service
from daybreak_runtime.benchmark.outcome import Settings
from daybreak_runtime.benchmark.run import Run
from daybreak_runtime.jobs.problem import JobProblem

SAMPLES = Path(__file__).parents[4] / "manifests" / "samples"
METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {running}
vllm:num_requests_running{{engine="1",model_name="m"}} 1.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0"}} 0.25
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{{engine="0"}} {preempted}
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {count}
vllm:time_to_first_token_seconds_sum {sum}
vllm:time_to_first_token_seconds_count {count}
"""
FUNCTIONS = """
import time
from dataclasses import dataclass, field


@dataclass
class RequestFuncInput:
    prompt: object
    api_url: str
    prompt_len: int
    output_len: int
    model: str
    extra_headers: dict | None = None
    extra_body: dict | None = None


@dataclass
class RequestFuncOutput:
    success: bool = False
    latency: float = 0.0
    output_tokens: int = 0
    ttft: float = 0.0
    error: str = ""


async def async_request_openai_completions(asked, session):
    began = time.perf_counter()
    body = {"prompt": asked.prompt, "max_tokens": asked.output_len, "model": asked.model, **asked.extra_body}
    async with session.post(asked.api_url, json=body, headers=asked.extra_headers) as answer:
        said = await answer.json()
        if answer.status != 200:
            return RequestFuncOutput(error=f"Traceback\\nHTTP {answer.status}")
        took = time.perf_counter() - began
        return RequestFuncOutput(True, took, said["tokens"], took / 2)
"""
"""In the form of vLLM's own, which is in the images only."""


class Played:
    """Fake engine: each answer takes a while, and some are rejected."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requested: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.at_once = self.most = 0
        self.refuse_every = 0
        self.refuse_first = 0
        self.seconds = 0.05


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Played, str]]:
    play = Played()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with play.lock:
                play.requested.append(body)
                play.keys.add(self.headers.get("Authorization"))
                play.at_once += 1
                play.most = max(play.most, play.at_once)
                refused = play.refuse_every and len(play.requested) % play.refuse_every == 0
                refused = refused or len(play.requested) <= play.refuse_first
            time.sleep(play.seconds)
            with play.lock:
                play.at_once -= 1
            self._write(503 if refused else 200, {"tokens": body["max_tokens"]})

        def do_GET(self) -> None:
            content = METRICS.format(
                running=play.at_once, preempted=0, count=len(play.requested), sum=1.0
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _write(self, status: int, report: dict[str, Any]) -> None:
            content = json.dumps(report).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            try:
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    library = tmp_path / "vllm" / "benchmarks" / "lib"
    library.mkdir(parents=True)
    (tmp_path / "vllm" / "__init__.py").write_text(
        "raise ImportError('its import costs each process seconds')"
    )
    (library / "endpoint_request_func.py").write_text(FUNCTIONS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield play, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def desired_state(**more: Any) -> Load:
    lengths = {"prompt_tokens": Lengths("Fixed", 7), "output_tokens": Lengths("Uniform", min=2, max=9)}
    return Load(**{"seconds": 0.5, "windows": 2, "ramp_seconds": 1.0, **lengths, **more})


def test_closed_loop_never_exceeds_one_open_request_per_client(
    played: tuple[Played, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play, base = played
    monkeypatch.setenv("KEY", "sk-1")
    target = Target(f"{base}/v1", "m", key="KEY", metrics=f"{base}/metrics")
    found = measure(target, desired_state(clients=(4,)), Level(clients=4), Objective(), {"a": 1})
    # On a busy machine not all of them are under way at once; more than that never are.
    assert 2 <= play.most <= 4
    assert play.keys == {"Bearer sk-1"}
    assert all(len(body["prompt"]) == 7 and body["ignore_eos"] for body in play.requested)
    assert {body["max_tokens"] for body in play.requested} <= set(range(2, 10))
    assert (found.clients, found.errors, found.settings) == (4, 0, {"a": 1})
    # Four clients whose requests take at least 50 ms.
    assert 0 < found.requests_per_second <= 80
    assert found.latency_ms.p50 >= 50
    assert len(found.windows) == 2
    assert found.engine is not None
    assert 1 <= found.engine.running <= 5
    assert found.engine.kv_cache == 0.25


def test_sample_of_a_load_test_runs_as_written(played: tuple[Played, str]) -> None:
    """Every level of manifests/samples/load-test.yaml, in windows of a twentieth of their length."""
    play, base = played
    manifest = yaml.safe_load((SAMPLES / "load-test.yaml").read_text())
    metadata = {"namespace": "default", "uid": "u", **manifest["metadata"]}
    benchmark = LLMBenchmark.from_manifest({**manifest, "metadata": metadata})
    found = Order.read(json.loads(order(benchmark, target(benchmark, None))))
    load = replace(found.load, seconds=found.load.seconds / 20, ramp_seconds=found.load.ramp_seconds / 3)

    @contextlib.contextmanager
    def engine(settings: Settings) -> Iterator[Target]:
        assert settings == {}, "there is no sweep"
        yield Target(f"{base}/v1", manifest["spec"]["model"]["name"], metrics=f"{base}/metrics")

    course = Run(replace(found, load=load), engine).run()
    written = manifest["spec"]["load"]
    assert [step.clients for step in course.steps] == written["clients"]
    assert all(step.requests > 0 and step.errors == 0 for step in course.steps), course.steps
    assert {len(step.windows) for step in course.steps} == {found.load.windows}
    assert play.most <= max(written["clients"])
    assert {body["model"] for body in play.requested} == {"tiny"}
    prompts = [len(body["prompt"]) for body in play.requested]
    answers = [body["max_tokens"] for body in play.requested]
    for lengths, drawn in (("promptTokens", prompts), ("outputTokens", answers)):
        assert max(drawn) <= written[lengths]["max"]
        assert 0.5 < fmean(drawn) / written[lengths]["mean"] < 1.5
    best = max(course.steps, key=lambda step: step.value)
    assert course.best == best


def test_open_loop_sends_at_its_rate_without_waiting_for_answers(played: tuple[Played, str]) -> None:
    play, base = played
    play.seconds = 0.4
    target = Target(f"{base}/v1", "m")
    found = measure(target, desired_state(rates=(30.0,), ramp_seconds=0.5), Level(rate=30.0), Objective(), {})
    # 30 a second for a second and a half; on a busy machine fewer leave in that time, more never do.
    assert 5 <= len(play.requested) <= 63
    assert play.most > 3, "none waits for the answer to another"
    assert (found.rate, found.clients, found.engine) == (30.0, None, None)


def test_load_processes_that_start_slowly_still_send_requests(
    played: tuple[Played, str], tmp_path: Path
) -> None:
    """If CPUs are scarce, a process takes longer to import its modules than this load lasts."""
    play, base = played
    library = tmp_path / "vllm" / "benchmarks" / "lib" / "endpoint_request_func.py"
    library.write_text("import time\ntime.sleep(5)\n" + FUNCTIONS)
    found = measure(Target(f"{base}/v1", "m"), desired_state(clients=(2,)), Level(clients=2), Objective(), {})
    assert play.requested
    assert found.requests_per_second > 0


def test_rejected_requests_are_counted_and_exceed_the_error_limit(played: tuple[Played, str]) -> None:
    play, base = played
    play.refuse_every = 2
    found = measure(Target(f"{base}/v1", "m"), desired_state(clients=(2,)), Level(clients=2), Objective(), {})
    assert found.errors > 0
    assert found.first_error == "HTTP 503"
    assert "of the requests failed" in found.exceeds


def test_failing_load_process_raises_load_failed(played: tuple[Played, str]) -> None:
    _, base = played
    with pytest.raises(module.LoadFailed, match="KeyError"):
        measure(
            Target(f"{base}/v1", "m", key="ABSENT"),
            desired_state(clients=(1,)),
            Level(clients=1),
            Objective(),
            {},
        )


def test_benchmark_waits_for_waking_service_and_fails_without_answer(
    played: tuple[Played, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play, base = played
    play.refuse_first = 2
    monkeypatch.setenv("KEY", "sk-1")
    pauses: list[float] = []
    awake(Service(f"{base}/v1", "m", "KEY"), sleep=pauses.append)
    assert (len(play.requested), len(pauses), play.keys) == (3, 2, {"Bearer sk-1"})
    with pytest.raises(JobProblem, match="Connection refused") as found:
        awake(Service("http://127.0.0.1:9/v1", "m"), patience=0.5, sleep=lambda _: time.sleep(0.2))
    assert found.value.reason == "NoAnswer"


def test_clients_and_rate_are_split_across_processes() -> None:
    target = Target("u", "m")
    found = jobs(target, desired_state(clients=(40,)), Level(clients=40), 8, 0, 1)
    assert len(found) == 3
    assert sorted(number for job in found for number in job.clients) == list(range(40))
    assert len(jobs(target, desired_state(clients=(40,)), Level(clients=40), 2, 0, 1)) == 1
    [one, other] = jobs(target, desired_state(rates=(39.0,)), Level(rate=39.0), 16, 0, 1)
    assert (one.rate, other.rate) == (19.5, 19.5)


def test_lengths_follow_their_distribution_and_the_seed() -> None:
    log_normal = Lengths("LogNormal", mean=200, sigma=0.7, min=1, max=100_000)
    one = requests(desired_state(prompt_tokens=log_normal), 0)
    drawn = [len(next(one).prompt) for _ in range(4000)]
    assert 185 < fmean(drawn) < 215
    again = requests(desired_state(prompt_tokens=log_normal), 0)
    assert [len(next(again).prompt) for _ in range(100)] == drawn[:100]
    other = requests(desired_state(prompt_tokens=log_normal), 1)
    assert [len(next(other).prompt) for _ in range(100)] != drawn[:100]
    short = requests(desired_state(prompt_tokens=Lengths("LogNormal", mean=200, min=50, max=60)), 0)
    assert {len(next(short).prompt) for _ in range(200)} <= set(range(50, 61))
    with pytest.raises(ValueError, match="no distribution Zipf"):
        next(requests(desired_state(prompt_tokens=Lengths("Zipf")), 0))


def test_recorded_prompt_and_output_lengths_stay_paired() -> None:
    one = requests(desired_state(recorded=((3, 30), (5, 50))), 0)
    drawn = [next(one) for _ in range(50)]
    assert {(len(each.prompt), each.output) for each in drawn} == {(3, 30), (5, 50)}


def test_prompts_share_a_prefix_only_if_prefixes_are_set() -> None:
    load = desired_state(prompt_tokens=Lengths("Fixed", 40), prefix_tokens=30, prefixes=2)
    drawn = [next(requests(load, client)).prompt for client in range(40)]
    assert len({tuple(prompt[:30]) for prompt in drawn}) == 2
    assert len({tuple(prompt[30:]) for prompt in drawn}) == 40
    assert all(len(prompt) == 40 for prompt in drawn)
    alone = [
        next(requests(desired_state(prompt_tokens=Lengths("Fixed", 40)), client)).prompt
        for client in range(9)
    ]
    assert len({tuple(prompt[:8]) for prompt in alone}) == 9


def test_arrivals_match_the_requested_rate() -> None:
    found = arrivals(50.0, desired_state(), 0, begin=100.0)
    moments = [next(found) for _ in range(5000)]
    assert moments[0] == 100.0
    assert 46 < 4999 / (moments[-1] - moments[0]) < 54


def test_engine_metrics_are_summarized_over_samples() -> None:
    first = read(METRICS.format(running=3.0, preempted=2, count=10, sum=1.0))
    last = read(METRICS.format(running=5.0, preempted=3, count=20, sum=3.0))
    found = summary([first, last])
    assert found is not None
    assert (found.running, found.preemptions, found.kv_cache, found.ttft_ms) == (5.0, 1, 0.25, 200.0)
    assert (found.waiting, found.tpot_ms) == (0.0, 0.0)
    assert summary([]) is None


def test_engine_arguments_become_flags() -> None:
    arguments = {
        "max_num_seqs": 8,
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "allowed_media_domains": ["a", "b"],
        "compilation_config": {"level": 0},
        "revision": None,
    }
    assert flags(arguments) == [
        *("--max-num-seqs", "8", "--no-enable-prefix-caching", "--enforce-eager"),
        *("--allowed-media-domains", "a", "b", "--compilation-config", '{"level": 0}'),
    ]
    found = command(Engine("/models/m", "m", {"max_num_seqs": 256}), {"max_num_seqs": 8})
    assert found[found.index("--max-num-seqs") + 1] == "8"
    assert found.count("--max-num-seqs") == 1
