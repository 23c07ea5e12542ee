"""Warm-up of a replica: both samplers have run before its port opens."""

import asyncio
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import daybreak_runtime
import daybreak_runtime.ahead

(RUNTIME,) = daybreak_runtime.__path__


def load(monkeypatch: pytest.MonkeyPatch, **stubs: Any) -> Any:
    """Import the module without the deployment class, which needs Ray."""
    package = types.ModuleType("daybreak_runtime.llm")
    package.__path__ = [str(Path(RUNTIME) / "llm")]
    monkeypatch.setitem(sys.modules, "daybreak_runtime.llm", package)
    for name, module in stubs.items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("warmup", "engine"):
        monkeypatch.delitem(sys.modules, f"daybreak_runtime.llm.{name}", raising=False)
    from daybreak_runtime.llm import warmup

    return warmup


class FakeEngine:
    """Generates one token of each running row per step, as a scheduler does."""

    has_gpu_sampler = True
    max_rows = 256

    def __init__(self, default_sampling: Mapping[str, Any] | None = None) -> None:
        self.default_sampling = default_sampling or {}
        self.running: dict[str, Mapping[str, Any]] = {}
        self.steps: list[tuple[int, bool, bool, bool]] = []
        """Rows, and whether one is greedy, one has a top_k and one has a top_p."""
        self.failure: Exception | None = None

    async def generate(self, request_id: str, tokens: int, sampling: Mapping[str, Any]) -> None:
        """Generate tokens."""
        if self.failure is not None:
            raise self.failure
        self.running[request_id] = sampling
        for _ in range(tokens):
            await asyncio.sleep(0)
            rows = list(self.running.values())
            greedy = any(row.get("temperature") == 0 for row in rows)
            self.steps.append(
                (len(rows), greedy, any("top_k" in row for row in rows), any("top_p" in row for row in rows))
            )
        del self.running[request_id]


@pytest.mark.parametrize(
    ("default_sampling", "kernels"),
    [
        ({}, {(False, True)}),
        ({"temperature": 0.6, "top_p": 0.95, "top_k": 20}, {(True, True)}),
        ({"top_p": 0.8}, {(False, True)}),
        ({"top_k": 50}, {(True, False), (True, True)}),
        ({"temperature": 0.0}, {(False, True)}),
    ],
)
async def test_warm_up_runs_both_samplers_at_both_batch_sizes(
    monkeypatch: pytest.MonkeyPatch, default_sampling: Mapping[str, Any], kernels: set[tuple[bool, bool]]
) -> None:
    engine = FakeEngine(default_sampling)
    await load(monkeypatch).warm_up(engine)
    for top_k, top_p in kernels:
        for greedy in (False, True):
            sizes = {
                rows
                for rows, has_greedy, *found in engine.steps
                if (has_greedy, *found) == (greedy, top_k, top_p)
            }
            assert 16 in sizes
            assert {size for size in sizes if 8 <= size < 16}
    assert not engine.running


async def test_small_batch_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    engine.max_rows = 4
    await load(monkeypatch).warm_up(engine)
    assert max(rows for rows, *_ in engine.steps) == 4


async def test_engine_without_a_gpu_sampler_is_not_warmed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    engine.has_gpu_sampler = False
    await load(monkeypatch).warm_up(engine)
    assert not engine.steps


async def test_failure_does_not_prevent_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    engine.failure = RuntimeError("out of memory")
    await load(monkeypatch).warm_up(engine)


async def test_hanging_warm_up_ends_after_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    warmup = load(monkeypatch)
    monkeypatch.setattr(warmup, "TIMEOUT_SECONDS", 0.05)

    class Hanging(FakeEngine):
        async def generate(self, request_id: str, tokens: int, sampling: Mapping[str, Any]) -> None:
            await asyncio.Event().wait()

    await asyncio.wait_for(warmup.warm_up(Hanging()), 5)


@pytest.mark.parametrize(
    ("device", "runner", "encoder", "warms"),
    [
        ("cuda", "generate", False, True),
        ("cpu", "generate", False, False),
        ("cuda", "pooling", False, False),
        ("cuda", "generate", True, False),
    ],
)
async def test_engine_reports_its_sampler(
    monkeypatch: pytest.MonkeyPatch, device: str, runner: str, encoder: bool, warms: bool
) -> None:
    requests = []
    vllm = types.ModuleType("vllm")
    vars(vllm)["SamplingParams"] = lambda **parameters: parameters
    load(monkeypatch, vllm=vllm)
    from daybreak_runtime.llm.engine import Engine

    async def generate(prompt: Any, params: Any, request_id: str) -> Any:
        requests.append((prompt, params, request_id))
        yield "a token"

    config = types.SimpleNamespace(
        device_config=types.SimpleNamespace(device_type=device),
        scheduler_config=types.SimpleNamespace(max_num_seqs=32),
        model_config=types.SimpleNamespace(
            runner_type=runner, is_encoder_decoder=encoder, get_diff_sampling_param=lambda: {"top_k": 20}
        ),
    )
    client = types.SimpleNamespace(vllm_config=config, generate=generate)
    engine = Engine(types.SimpleNamespace(_engine_client=client))
    assert engine.has_gpu_sampler is warms
    assert (engine.max_rows, engine.default_sampling) == (32, {"top_k": 20})
    await engine.generate("one", 3, {"temperature": 0.0})
    [(prompt, params, request_id)] = requests
    assert prompt == {"prompt_token_ids": [1]}
    assert (params["max_tokens"], params["temperature"], request_id) == (3, 0.0, "one")


async def test_port_opens_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def stub(name: str, **values: Any) -> None:
        module = types.ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)

    async def nothing(*_: Any) -> None:
        pass

    class RayServer:
        _llm_config = None

        async def start(self) -> None:
            events.append("engine started")
            self.engine = None

    class Engine(FakeEngine):
        takes_adapters = False

        def __init__(self, engine: Any) -> None:
            super().__init__()

        async def app(self) -> None:
            pass

        async def generate(self, request_id: str, tokens: int, sampling: Mapping[str, Any]) -> None:
            events.append("request")

    class Replica:
        def __init__(self, *_: Any) -> None:
            pass

        async def start(self) -> None:
            events.append("port open")

    load(monkeypatch)
    stub("ray.llm._internal.serve.constants", RAYLLM_VLLM_ENGINE_CLS_ENV="ENGINE")
    stub("ray.serve.llm.deployment", LLMServer=RayServer)
    stub("daybreak_runtime.ahead.processes", prepare=lambda: None)
    monkeypatch.setattr(
        daybreak_runtime.ahead, "processes", sys.modules["daybreak_runtime.ahead.processes"], raising=False
    )
    stub("daybreak_runtime.llm.engine", Engine=Engine)
    stub("daybreak_runtime.llm.replica", Replica=Replica, OwnPaths=dict)
    stub("daybreak_runtime.llm.weights", look_here=nothing)
    stub("daybreak_runtime.lora.http", PATH="/lora")
    stub("daybreak_runtime.lora.replica", ReplicaLora=type("ReplicaLora", (), {}))
    monkeypatch.delitem(sys.modules, "daybreak_runtime.llm.server", raising=False)
    from daybreak_runtime.llm.server import LLMServer

    # A coroutine, which Serve awaits.
    monkeypatch.delattr(LLMServer, "__del__")
    await LLMServer().start()
    monkeypatch.delitem(sys.modules, "daybreak_runtime.llm.server")
    assert (events[0], events[-1]) == ("engine started", "port open")
    assert set(events[1:-1]) == {"request"}
