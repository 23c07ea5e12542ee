"""Loaders of libraries that the Ray image does not have, real, in a separate environment."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ray import environment as ray_environment
from bench.ray.environment import RUNTIME
from cluster import paths
from cluster.tools.locks import lock
from cluster.tools.programs import run

pytestmark = [pytest.mark.xdist_group("serving"), pytest.mark.timeout(600)]
LOCK = paths.REPOSITORY / "requirements" / "loaders.txt"
FOLDER = paths.DAYBREAK / "loaders-venv"
OTHER = "LOADERS_VENV"
"""Environment variable with another place for it."""


def environment() -> Path:
    """Return a Python with the lock's packages, and those of the Ray image behind them."""
    folder = Path(os.environ.get(OTHER) or FOLDER)
    made, digest = folder / ".made", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    python = folder / "bin" / "python"
    with lock("loaders-venv"):
        if not made.exists() or made.read_text() != digest:
            uv = Path(sys.executable).parent / "uv"
            run([uv, "venv", "-q", "--clear", "--python", ray_environment.VERSION, folder])
            run([uv, "pip", "install", "-q", "--python", python, "--require-hashes", "-r", LOCK])
            ray = ray_environment.python().parent.parent
            site = Path("lib") / f"python{ray_environment.VERSION}" / "site-packages"
            (folder / site / "ray.pth").write_text(f"{ray / site}\n")
            made.write_text(digest)
    return python


def test_sklearn_onnx_and_mlflow_models_load_and_predict(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [environment(), Path(__file__).with_name("load_models.py"), tmp_path],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(RUNTIME)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {
        "sklearn": {"inputs": [["x", "FP64[-1, 2]"]], "outputs": {"output": ["no", "yes"]}},
        "onnx": {"inputs": [["rows", "FP32[-1, 2]"]], "outputs": {"twice": [0.0, 0.0, 2.0, 2.0]}},
        "mlflow": {
            "inputs": [["a", "FP64[-1]"], ["b", "FP64[-1]"]],
            "outputs": {"output": [0.0, 2.0]},
        },
    }
