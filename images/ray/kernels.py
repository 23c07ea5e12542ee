"""Compile FlashInfer's sampling kernels ahead of time: vLLM uses them in the warm-up of every engine.

FlashInfer compiles a module at its first call, unless its folder of precompiled libraries has the module
(`flashinfer/data/aot`). vLLM samples with FlashInfer by default, so each start on an empty cache would wait
for nvcc: a minute and a half with 16 CPUs. Neither nvcc nor FlashInfer's generator of build files needs a
GPU. The generator needs only two facts from torch, which are set below. Therefore this program runs without
torch: in the image before torch is installed, and in the tests.

Usage: kernels.py SITE_PACKAGES [ARCHITECTURE ...], for example 9.0; by default what every GPU needs that vLLM
samples with FlashInfer on (compute capability 8.0 to 12.1). Needs `c++` and `ninja`.
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

ARCHITECTURES = ("8.0", "9.0", "10.0f", "12.0f")
"""Machine code of 8.0 runs on all of 8.x (A100, A10, L4, L40S), of 9.0 on H100 and H200, of 10.0f on 10.0 and
10.3 (B200, B300), of 12.0f on 12.0 and 12.1 (RTX PRO, DGX Spark)."""
PORTABLE = "-gencode=arch=compute_80,code=compute_80"
"""For any other GPU, the driver compiles this at the first start: FlashInfer does not compile by itself where
it finds a library."""


def compile_sampling(site: Path, architectures: list[str], work: Path) -> Path:
    """Compile and link the sampling module as FlashInfer itself would; returns the library."""
    os.environ["CUDA_HOME"] = str(site / HOME)
    os.environ["FLASHINFER_CUDA_ARCH_LIST"] = " ".join(architectures)
    os.environ["FLASHINFER_EXTRA_CUDAFLAGS"] = PORTABLE
    os.environ["FLASHINFER_WORKSPACE_BASE"] = str(work)
    module: Any = _without_the_rest(site).gen_sampling_module()
    module.write_ninja()
    command = ["ninja", "--quiet", "-C", str(module.build_dir), "-f", str(module.ninja_path)]
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
    for package in ("flashinfer", "flashinfer.jit", "tvm_ffi"):
        stand_in = ModuleType(package)
        stand_in.__path__ = [str(site.joinpath(*package.split(".")))]
        sys.modules[package] = stand_in
    importlib.import_module("tvm_ffi.libinfo")  # where its headers are
    torch: Any = ModuleType("torch")
    torch._C = ModuleType("torch._C")
    # PyPI's torch is built with it since 2.7. FlashInfer's modules meet torch through tvm-ffi, which is C.
    torch._C._GLIBCXX_USE_CXX11_ABI = True
    torch.__getattr__ = lambda name: f"torch.{name}"  # types, as keys of tables
    sys.modules["torch"] = torch
    return importlib.import_module("flashinfer.jit.sampling")


def main(arguments: list[str]) -> None:
    """Compile, link and install."""
    site = Path(arguments[0]).resolve()
    with tempfile.TemporaryDirectory() as work:
        library = compile_sampling(site, arguments[1:] or list(ARCHITECTURES), Path(work))
        print(install(site, library))


if __name__ == "__main__":
    main(sys.argv[1:])
