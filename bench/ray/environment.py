"""Packages of `images/ray-cpu` on this machine, for measurements of Ray and vLLM without a cluster."""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster import paths
from cluster.tools.locks import lock
from cluster.tools.programs import run
from cluster.tools.report import Report

LOCK = paths.REPOSITORY / "images" / "ray-cpu" / "requirements.txt"
RUNTIME = paths.REPOSITORY / "runtime" / "src"
WITHOUT_CUDA = LOCK.with_name("without_cuda.py")
"""Script that the image's build also runs: PyPI's torch requires NVIDIA's libraries, which the lock omits."""
FOLDER = paths.DAYBREAK / "ray-venv"
VERSION = "3.11"
"""Python version of the lock."""


OTHER = "RAY_PYTHON"
"""Environment variable with a Python that already has the packages."""
ENGINE_ON_CPUS = {
    "OMP_NUM_THREADS": str(os.cpu_count() or 1),
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_USE_AOT_COMPILE": "0",
}
"""Environment variables of an engine on CPUs."""


def variables(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a Daybreak program in such a Python: `more`, the sources, no downloads."""
    return {
        **{name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
        **more,
        "PYTHONPATH": os.pathsep.join(map(str, (paths.REPOSITORY, RUNTIME))),
        "HF_HUB_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }


def python(folder: Path = FOLDER) -> Path:
    """Return a Python with the packages of the lock, created if it is missing or the lock has changed.

    The wheels are those from which the image is built, taken from uv's cache if they are in it.
    """
    if other := os.environ.get(OTHER):
        return Path(other)
    with lock("ray-venv"):
        return _made(folder)


def _made(folder: Path) -> Path:
    made, found = folder / ".made", folder / "bin" / "python"
    digest = hashlib.sha256(LOCK.read_bytes() + WITHOUT_CUDA.read_bytes()).hexdigest()
    if made.exists() and made.read_text() == digest:
        return found
    uv = Path(sys.executable).parent / "uv"
    with Report().step(f"Ray and vLLM in {folder.relative_to(paths.REPOSITORY)}"):
        run([uv, "venv", "-q", "--clear", "--python", VERSION, folder])
        install: list[str | Path] = [
            uv,
            "pip",
            "install",
            "-q",
            "--python",
            found,
            "--no-deps",
            "--require-hashes",
        ]
        # Copies, because the next step patches files and must not change uv's cache.
        run([*install, "--link-mode", "copy", "-r", LOCK])
        run([found, WITHOUT_CUDA, folder / "lib" / f"python{VERSION}" / "site-packages"])
        made.write_text(digest)
    return found
