"""Ollama itself, started as a ModelServer starts it, behind the real gateway: by hand (CONTRIBUTING.md).

OLLAMA is the program, with the file name `ollama`, and LLAMA_MODEL a small GGUF file.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ollama import AsyncClient

from tests.gateway.engines.engine_process import MODEL, EngineProcess, engine_process
from tests.gateway.engines.scene import GatedEngine
from tests.gateway.village import Village, village

PROGRAMS = [Path(os.environ.get("OLLAMA", "/usr/local/bin/ollama")).parent]
WEIGHTS = Path(os.environ.get("LLAMA_MODEL", "tiny.gguf")).resolve()
NO_REGISTRY = {"name": "HTTPS_PROXY", "value": "http://127.0.0.1:9"}
"""Proxy at which nothing listens: the registry is not reachable."""
ANSWER: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
SHORT = {"num_predict": 8}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Village]:
    async with village(tmp_path) as made:
        yield made


async def check(place: Village, engine: EngineProcess) -> None:
    """Wake the server by a request, compare the model's list after its sleep, and wake it again."""
    gated = GatedEngine(place, engine)
    await gated.close()
    async with AsyncClient(host=gated.url) as client:
        answer = await gated.wake_for(client.chat(**ANSWER, options=SHORT))
        assert answer.done
        assert answer.eval_count
        assert [each async for each in await client.chat(**ANSWER, options=SHORT, stream=True)][-1].done
        await gated.sleep()
        listed = await gated.wake_for(client.list())
    assert f"{MODEL}:latest" in [each.model for each in listed.models]


async def test_ollama_imports_file_and_answers(place: Village, tmp_path: Path) -> None:
    spec: dict[str, Any] = {"model": {"name": MODEL, "source": f"file://{WEIGHTS}"}}
    async with engine_process(tmp_path, PROGRAMS, "ollama", **spec) as engine:
        await check(place, engine)


async def test_ollama_serves_library_model_on_volume_without_registry(place: Village, tmp_path: Path) -> None:
    """A server that imports a file creates the model, as an earlier pull does."""
    filled: dict[str, Any] = {"model": {"name": "llama3:8b", "source": f"file://{WEIGHTS}"}}
    async with engine_process(tmp_path, PROGRAMS, "ollama", **filled) as engine:
        await engine.start()
        await engine.stop()
    spec: dict[str, Any] = {"model": {"name": MODEL, "source": "ollama://llama3:8b"}, "env": [NO_REGISTRY]}
    async with engine_process(tmp_path, PROGRAMS, "ollama", **spec) as engine:
        await check(place, engine)
