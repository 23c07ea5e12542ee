"""Compile FlashInfer's sampling kernels ahead of time: vLLM uses them in the warm-up of every engine.

FlashInfer compiles a module when it is first called, unless the library lies in its folder for what is
compiled ahead (`flashinfer/data/aot`). vLLM samples with it by default, so that each start on an empty cache
would wait for nvcc; with sixteen cores a minute and a half. Neither nvcc nor FlashInfer's generator of build
files needs a GPU, and of torch the generator wants only two facts, which stand below: so this runs without
torch, in the image before it is installed and in the tests.

Usage: kernels.py SITE_PACKAGES [ARCHITECTURE ...], for example 9.0; by default all that Daybreak supports.
"""

import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from cuda_home import HOME

ARCHITECTURES = ("8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0")
"""CUDA compute capabilities whose machine code goes into the image: A100, A10, L4 and L40S, H100 and H200,
B200, B300, RTX PRO. On any other GPU FlashInfer compiles for itself, at the first start."""


def compile_sampling(site: Path, architectures: list[str], work: Path) -> Path:
    """Compile and link the sampling module as FlashInfer itself would; returns the library."""
    os.environ["CUDA_HOME"] = str(site / HOME)
    os.environ["FLASHINFER_CUDA_ARCH_LIST"] = " ".join(architectures)
    os.environ["FLASHINFER_WORKSPACE_BASE"] = str(work)
    sampling = _without_the_rest(site)
    module: Any = sampling.gen_sampling_module()
    module.write_ninja()
    command = ["ninja", "-C", str(module.build_dir), "-f", str(module.ninja_path)]
    subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603 - FlashInfer's own build
    library: Path = module.jit_library_path
    return library


def install(site: Path, library: Path) -> Path:
    """Put a compiled module where FlashInfer looks before it compiles."""
    place = site / "flashinfer" / "data" / "aot" / library.stem / library.name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(library.read_bytes())
    place.chmod(0o755)
    return place


def _without_the_rest(site: Path) -> ModuleType:
    """FlashInfer's description of the sampling module, imported without what its packages import on top."""
    sys.path.insert(0, str(site))
    for package in ("flashinfer", "flashinfer.jit"):
        stand_in = ModuleType(package)
        stand_in.__path__ = [str(site.joinpath(*package.split(".")))]
        sys.modules[package] = stand_in
    sys.modules["torch"] = None  # type: ignore[assignment]  # tvm-ffi would go on to look for its types
    importlib.import_module("tvm_ffi")
    torch: Any = ModuleType("torch")
    torch._C = ModuleType("torch._C")
    # PyPI's torch is built with it since 2.7. FlashInfer's modules meet torch through tvm-ffi, which is C.
    torch._C._GLIBCXX_USE_CXX11_ABI = True
    torch.__getattr__ = lambda name: f"torch.{name}"  # types, as keys of tables
    sys.modules["torch"] = torch
    try:
        return importlib.import_module("flashinfer.jit.sampling")
    finally:
        del sys.modules["torch"]


def main(arguments: list[str]) -> None:
    """Compile, link and install."""
    site = Path(arguments[0]).resolve()
    with tempfile.TemporaryDirectory() as work:
        library = compile_sampling(site, arguments[1:] or list(ARCHITECTURES), Path(work))
        print(install(site, library))


if __name__ == "__main__":
    main(sys.argv[1:])
