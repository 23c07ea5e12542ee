"""Triton itself, started by its ModelServer behind the real gateway, with its public client.

The program is the one in nvidia-pytriton, in a separate environment. It computes with a model in Python.
"""

import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http.aio as triton

from bench.ray.environment import VERSION
from cluster import paths
from cluster.tools.locks import lock
from cluster.tools.programs import run
from tests.gateway.engines.engine_process import HOST, MODEL, engine_process
from tests.gateway.engines.scene import GatedEngine
from tests.gateway.village import Village

LOCK = paths.REPOSITORY / "requirements" / "triton.txt"
FOLDER = paths.DAYBREAK / "triton-venv"
CONFIGURATION = """
backend: "python"
input [{name: "x", data_type: TYPE_FP32, dims: [-1]}]
output [{name: "y", data_type: TYPE_FP32, dims: [-1]}]
"""
PROGRAM = """
import triton_python_backend_utils as backend


class TritonPythonModel:
    def execute(self, requests):
        inputs = [backend.get_input_tensor_by_name(each, "x").as_numpy() for each in requests]
        return [backend.InferenceResponse([backend.Tensor("y", 2 * each)]) for each in inputs]
"""
"""Model that doubles its input."""
pytestmark = [pytest.mark.xdist_group("triton"), pytest.mark.timeout(600)]


def environment() -> Path:
    """Return the folder of Triton in an environment with the packages of the lock, created if necessary."""
    made, digest = FOLDER / ".made", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    found = FOLDER / "lib" / f"python{VERSION}" / "site-packages" / "pytriton" / "tritonserver"
    with lock("triton-venv"):
        if not made.exists() or made.read_text() != digest:
            uv = Path(sys.executable).parent / "uv"
            run([uv, "venv", "-q", "--clear", "--python", VERSION, FOLDER])
            run(
                [
                    uv,
                    "pip",
                    "install",
                    "-q",
                    "--python",
                    FOLDER / "bin" / "python",
                    "--require-hashes",
                    "-r",
                    LOCK,
                ]
            )
            # As pytriton does at its start: the program that runs models in Python, for this version.
            stub = found / "python_backend_stubs" / VERSION / "triton_python_backend_stub"
            shutil.copy(stub, found / "backends" / "python")
            made.write_text(digest)
    return found


def repository(folder: Path) -> Path:
    """Create a model repository."""
    made = folder / "repository"
    program = made / MODEL / "1" / "model.py"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    (made / MODEL / "config.pbtxt").write_text(CONFIGURATION)
    return made


async def double(
    client: triton.InferenceServerClient, values: Sequence[float], *, binary: bool
) -> list[float]:
    """Send a tensor, and return the answer."""
    tensor = triton.InferInput("x", [len(values)], "FP32")
    tensor.set_data_from_numpy(np.array(values, np.float32), binary_data=binary)
    outputs = [triton.InferRequestedOutput("y", binary_data=binary)]
    answer = await client.infer(MODEL, [tensor], outputs=outputs)
    return [float(each) for each in answer.as_numpy("y")]


async def test_triton_wakes_answers_and_sleeps(place: Village, tmp_path: Path) -> None:
    home = environment()
    spec: dict[str, Any] = {
        "model": {"name": MODEL, "source": f"file://{repository(tmp_path)}"},
        # gRPC has a fixed port, and the gateway does not forward it.
        "engineArgs": {"backend_directory": str(home / "backends"), "allow_grpc": "false"},
        "gracefulShutdownTimeout": "5s",
    }
    async with engine_process(tmp_path, [home / "bin", FOLDER / "bin"], "triton", **spec) as engine:
        gated = GatedEngine(place, engine)
        await gated.close()
        async with triton.InferenceServerClient(f"{HOST}:{place.config.first_port}") as client:
            assert await gated.wake_for(double(client, [1, 2.5], binary=True)) == [2, 5]
            assert await double(client, [4], binary=False) == [8]
            assert f'nv_inference_request_success{{model="{MODEL}",version="1"}} 2' in str(
                await engine.metrics()
            )
            assert await gated.sleep() == 0
            index = await gated.wake_for(client.get_model_repository_index())
            assert [(each["name"], each["state"]) for each in index] == [(MODEL, "READY")]
            assert await client.is_model_ready(MODEL)
