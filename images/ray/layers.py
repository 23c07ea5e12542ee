"""Divide the lock into the layers of the image, so that a new vLLM does not move CUDA's 3 GB again.

What changes seldom lies below what changes often. Each step of the Dockerfile that installs sees only its own
part of the lock, and is done again only if that part has changed.

Usage: layers.py REQUIREMENTS FOLDER. Writes FOLDER/cuda.txt, kernels.txt, torch.txt and rest.txt.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

LAYERS: Mapping[str, str] = {
    # CUDA's compiler and libraries: they change with torch's CUDA.
    "cuda": r"cuda-toolkit"
    r"|nvidia-(cu(blas|da|dnn-cu|fft|file|rand|solver|sparse)|nccl|nvjitlink|nvshmem|nvtx|nvvm).*",
    # What FlashInfer's kernels are compiled from and with (kernels.py).
    "kernels": r"apache-tvm-ffi|filelock|flashinfer-python|ninja|packaging|typing-extensions",
    "torch": r"torch|torchaudio|torchvision|triton",
    "rest": r".*",
}
"""Layer → its packages; the first that fits has a package."""

REQUIREMENT = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==[^\\\n]*(?:\\\n[^\\\n]*)*\n", re.MULTILINE)


def divide(lock: str) -> dict[str, str]:
    """The lock's requirements with their hashes, by layer."""
    parts = dict.fromkeys(LAYERS, "")
    for requirement in REQUIREMENT.finditer(lock):
        layer = next(each for each, names in LAYERS.items() if re.fullmatch(names, requirement["name"]))
        parts[layer] += requirement[0]
    return parts


def main(lock: Path, folder: Path) -> None:
    """Write the parts."""
    folder.mkdir(parents=True, exist_ok=True)
    for layer, requirements in divide(lock.read_text()).items():
        (folder / f"{layer}.txt").write_text(requirements)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
