"""Engines without a public image here, as stubs, started by their ModelServers behind the real gateway.

The stubs check the command line and the environment; the public client of each engine sends the requests.
"""

from pathlib import Path
from typing import Any

import ollama
import pytest
from openai import AsyncOpenAI

from tests.gateway.engines.engine_process import MODEL, engine_process, stub_programs
from tests.gateway.engines.scene import GatedEngine
from tests.gateway.engines.stub_engine import METRICS
from tests.gateway.engines.stub_ollama import GGUF
from tests.gateway.village import Village

HUB: dict[str, Any] = {"model": {"name": MODEL, "source": "hf://owner/name", "revision": "f" * 40}}
TRUSTED: dict[str, Any] = {"model": {**HUB["model"], "trustRemoteCode": True}}
PLAIN: dict[str, Any] = {"model": {"name": MODEL, "source": "hf://owner/name"}}
GPUS: dict[str, Any] = {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 2, "pipeline": 2}}
SECRET = "FRIENDLI_CONTAINER_SECRET"  # noqa: S105 -- the name of a variable
OPENAI: dict[str, dict[str, Any]] = {
    "sglang": {**TRUSTED, **GPUS, "engineArgs": {"mem_fraction_static": 0.8, "enable-mixed-chunk": True}},
    "tgi": {**TRUSTED, **GPUS, "engineArgs": {"max_concurrent_requests": 256}},
    "tensorrt-llm": {**TRUSTED, **GPUS, "engineArgs": {"max_batch_size": 64}},
    "friendli": {
        **PLAIN,
        **GPUS,
        "engineArgs": {"max_batch_size": 64},
        "env": [{"name": SECRET, "valueFrom": {"secretKeyRef": {"name": "friendli", "key": "secret"}}}],
    },
}
"""Spec of each engine with OpenAI's API, with options that its stub knows."""
SECRETS = {SECRET: "secret"}


def client(gated: GatedEngine) -> AsyncOpenAI:
    """Return OpenAI's client. It must not repeat a request that the gateway should hold."""
    return AsyncOpenAI(base_url=f"{gated.url}/v1", api_key="none", max_retries=0)


async def chat(openai: AsyncOpenAI) -> str | None:
    """Send one request, and return its text."""
    messages: Any = [{"role": "user", "content": "Hello"}]
    answer = await openai.chat.completions.create(model=MODEL, messages=messages)
    return answer.choices[0].message.content


@pytest.mark.parametrize("name", OPENAI)
async def test_openai_engine_wakes_answers_and_sleeps(place: Village, tmp_path: Path, name: str) -> None:
    programs = stub_programs(tmp_path)
    async with engine_process(tmp_path, programs, name, SECRETS, **OPENAI[name]) as engine:
        gated = GatedEngine(place, engine)
        await gated.close()
        async with client(gated) as openai:
            assert await gated.wake_for(chat(openai)) == "owner/name"
            assert await engine.metrics() == (None if name == "tensorrt-llm" else METRICS)
            assert await gated.sleep() == 0
            assert [each.id async for each in openai.models.list()] == [MODEL]
            assert (await gated.until(lambda _: True)).held == 0, "the list wakes nothing"
            assert await gated.wake_for(chat(openai)) == "owner/name"


async def test_openai_engine_streams_after_wake(place: Village, tmp_path: Path) -> None:
    """With a model in a directory, which the engine receives as a path."""
    spec: dict[str, Any] = {"model": {"name": MODEL, "source": f"file://{tmp_path}"}}
    async with engine_process(tmp_path, stub_programs(tmp_path), "sglang", **spec) as engine:
        gated = GatedEngine(place, engine)
        await gated.close()
        async with client(gated) as openai:
            messages: Any = [{"role": "user", "content": "Hello"}]
            stream = await gated.wake_for(
                openai.chat.completions.create(model=MODEL, messages=messages, stream=True)
            )
            assert [event.choices[0].delta.content async for event in stream] == [str(tmp_path)]


@pytest.mark.parametrize("name", OPENAI)
async def test_stub_rejects_undocumented_option(tmp_path: Path, name: str) -> None:
    spec = {**OPENAI[name], "engineArgs": {"no_such_option": 1}}
    async with engine_process(tmp_path, stub_programs(tmp_path), name, SECRETS, **spec) as engine:
        assert await (await engine.launch()).wait() == 2
        assert "no_such_option".replace("_", "-") in engine.log.replace("_", "-")


def gguf(folder: Path) -> str:
    """Create a file that the stub accepts as a model, and return its path."""
    file = folder / "model.gguf"
    file.write_bytes(GGUF)
    return str(file)


@pytest.mark.parametrize("scheme", ["file", "hf", "ollama"])
async def test_ollama_wakes_answers_and_sleeps(place: Village, tmp_path: Path, scheme: str) -> None:
    """Ollama's client sends the requests. Each wake imports or pulls the model."""
    source, origin = {
        "file": (f"file://{gguf(tmp_path)}", gguf(tmp_path)),
        "hf": ("hf://owner/name", "pull of hf.co/owner/name"),
        "ollama": ("ollama://llama3:8b", "pull of llama3:8b"),
    }[scheme]
    spec: dict[str, Any] = {"model": {"name": MODEL, "source": source}}
    async with engine_process(tmp_path, stub_programs(tmp_path), "ollama", **spec) as engine:
        gated = GatedEngine(place, engine)
        await gated.close()
        async with ollama.AsyncClient(host=gated.url) as with_ollama:
            messages = [{"role": "user", "content": "Hello"}]
            answer = await gated.wake_for(with_ollama.chat(model=MODEL, messages=messages))
            assert answer.message.content == origin
            parts = [
                each async for each in await with_ollama.chat(model=MODEL, messages=messages, stream=True)
            ]
            assert [each.message.content for each in parts] == [origin]
            with pytest.raises(ollama.ResponseError, match="not found"):
                await with_ollama.chat(model="other", messages=messages)
            assert await engine.metrics() is None
            assert await gated.sleep() == 0
            listed = await gated.wake_for(with_ollama.list())
        assert f"{MODEL}:latest" in [each.model for each in listed.models]
