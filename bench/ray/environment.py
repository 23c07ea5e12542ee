"""images/ray-cpu's packages on this machine, for what measures Ray and vLLM without a cluster."""

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
"""What the image's build runs too: PyPI's torch asks for NVIDIA's libraries, which the lock leaves out."""
FOLDER = paths.DAYBREAK / "ray-venv"
VERSION = "3.11"
"""Of Python: what the lock is for."""


OTHER = "RAY_PYTHON"
"""Environment variable with a Python that has the packages already."""
ENGINE_ON_CPUS = {
    "OMP_NUM_THREADS": str(os.cpu_count() or 1),
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_USE_AOT_COMPILE": "0",
}
"""Environment variables of an engine on CPUs."""


def variables(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program of ours in such a Python: `more`, our sources, and nothing is fetched."""
    return {
        **{name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
        **more,
        "PYTHONPATH": os.pathsep.join(map(str, (paths.REPOSITORY, RUNTIME))),
        "HF_HUB_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }


def python(folder: Path = FOLDER) -> Path:
    """A Python with the packages of the lock; made when it is not there, or when the lock is another one.

    The wheels are those that the image is built from, out of uv's cache where they are there.
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
        # Copies: what is patched next must not be uv's cache.
        run([*install, "--link-mode", "copy", "-r", LOCK])
        run([found, WITHOUT_CUDA, folder / "lib" / f"python{VERSION}" / "site-packages"])
        made.write_text(digest)
    return found
