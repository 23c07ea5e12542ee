"""CUDA toolchain of images/ray, installed from its lock without the image and without a GPU.

Of the image's 10 GB, this installs the compiler, the headers and libraries that it links with, and
FlashInfer's sources: 500 MB. Incompatible versions are detected here, not at the start of an engine on a GPU
node.
"""

import hashlib
import os
import platform
import re
import runpy
import shutil
import sys
from pathlib import Path

from cluster import paths
from cluster.errors import ClusterError
from cluster.images import buildah
from cluster.tools.locks import lock
from cluster.tools.programs import run
from cluster.tools.report import Report

IMAGE = paths.REPOSITORY / "images" / "ray"
_FOLDERS = paths.SHARE / "cuda"
_PYTHON = "3.11"
"""Python version for which the lock has wheels; nothing compiled for Python is loaded here."""
_COMPILER = re.compile(r"nvidia-(cuda-(cccl|crt|nvcc|runtime)|curand|nvvm)==")


def packages(requirements: str) -> str:
    """Return the part of the lock that compilation needs, with hashes."""
    layers = runpy.run_path(str(IMAGE / "layers.py"))
    parts: dict[str, str] = layers["divide"](requirements)
    cuda = [found[0] for found in layers["REQUIREMENT"].finditer(parts["cuda"])]
    return "".join(each for each in cuda if _COMPILER.match(each)) + parts["kernels"]


def environment(report: Report, requirements: Path = IMAGE / "requirements.txt") -> Path:
    """Install that part of the lock like the image does, if missing, and return the packages' folder."""
    if shutil.which("c++") is None:
        raise ClusterError("a C++ compiler is missing (on Debian: apt-get install g++)")
    desired = packages(requirements.read_text())
    script = IMAGE / "cuda_home.py"
    key = hashlib.sha256(f"{desired}{script.read_text()}{platform.machine()}".encode()).hexdigest()[:12]
    folder = _FOLDERS / key
    with lock("cuda"):
        if not folder.exists():
            with report.step("CUDA's compiler and FlashInfer, from the lock", expect_seconds=60):
                _install(desired, folder)
    return folder


def _install(desired: str, folder: Path) -> None:
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    file = partial / "wanted.txt"
    file.write_text(desired)
    command: list[str | Path] = [
        buildah.uv(),
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--require-hashes",
        "-r",
    ]
    command += [file, "--target", partial, "--python", sys.executable, "--python-version", _PYTHON]
    command += ["--python-platform", f"{platform.machine()}-manylinux_2_34"]
    run(command, downloads="CUDA's compiler and FlashInfer")
    run([sys.executable, IMAGE / "cuda_home.py", partial])
    partial.rename(folder)


def sampling_library(folder: Path, architecture: str) -> Path:
    """Return FlashInfer's sampling kernels, compiled and linked by the image's own script.

    Compilation takes minutes. Like Go's build cache, the user's cache keeps the result under a key of all its
    inputs: another lock, script or machine compiles again.
    """
    script = hashlib.sha256((IMAGE / "kernels.py").read_bytes()).hexdigest()[:12]
    library = _cache() / f"sampling-{folder.name}-{script}-{architecture}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        partial = library.with_name(f".{library.name}.{os.getpid()}")
        shutil.copyfile(_compile_sampling(folder, (architecture,)), partial)
        partial.rename(library)
    return library


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "daybreak"


def _compile_sampling(folder: Path, architectures: tuple[str, ...]) -> Path:
    search = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    command: list[str | Path] = [sys.executable, IMAGE / "kernels.py", folder, *architectures]
    return Path(run(command, environment={"PATH": search}).strip())
