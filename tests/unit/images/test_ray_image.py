"""The scripts that build the GPU image: layers, CUDA's folder, and the copied package."""

import importlib.metadata
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from daybreak import versions

ROOT = Path(__file__).parents[3]
IMAGE = ROOT / "images" / "ray"
LAYERS = runpy.run_path(str(IMAGE / "layers.py"))
CUDA_HOME = runpy.run_path(str(IMAGE / "cuda_home.py"))
RUNTIME = runpy.run_path(str(IMAGE / "install_runtime.py"))

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs cc")
HEADER = """\
#define cuMemFree cuMemFree_v2
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuMemFree(CUdeviceptr dptr);
"""


def test_every_requirement_is_in_one_layer_with_its_hashes() -> None:
    lock = (IMAGE / "requirements.txt").read_text()
    parts = LAYERS["divide"](lock)
    lines = [line for part in parts.values() for line in part.splitlines()]
    assert sorted(lines) == sorted(line for line in lock.splitlines() if not line.startswith("#"))
    assert "\nnvidia-cuda-nvcc==" in parts["cuda"]
    assert "\nflashinfer-python==" in parts["kernels"]
    assert parts["torch"].startswith("torch==")
    assert "\nvllm==" in parts["rest"]


def test_layer_text_is_unchanged_if_its_packages_are_unchanged() -> None:
    lock = (IMAGE / "requirements.txt").read_text()
    before, after = LAYERS["divide"](lock), LAYERS["divide"](lock.replace("\nvllm==", "\nvllm==9."))
    assert [layer for layer in before if before[layer] != after[layer]] == ["rest"]


def test_compiler_headers_and_libraries_have_same_cuda_version() -> None:
    lock = (IMAGE / "requirements.txt").read_text()
    for package in ("cccl", "crt", "nvcc", "nvrtc", "runtime"):
        assert f"\nnvidia-cuda-{package}==13.0." in lock
    for package in ("nvjitlink", "nvvm"):
        assert f"\nnvidia-{package}==13.0." in lock


def test_dockerfile_states_required_cuda_version() -> None:
    assert f'NVIDIA_REQUIRE_CUDA="cuda>={versions.CUDA}"' in (IMAGE / "Dockerfile").read_text()


def test_libraries_get_unversioned_link_names() -> None:
    there = ["libcudart.so.13", "libcublas.so", "libcublas.so.13", "libnvrtc.so.9", "libnvrtc.so.13", "x.a"]
    assert CUDA_HOME["link_names"](there) == {
        "libcudart.so": "libcudart.so.13",
        "libnvrtc.so": "libnvrtc.so.13",
    }


@pytest.fixture
def site(tmp_path: Path) -> Path:
    home = tmp_path / "nvidia" / "cu13"
    for folder in ("bin", "include", "lib"):
        (home / folder).mkdir(parents=True)
    (home / "bin" / "nvcc").touch()
    (home / "include" / "cuda.h").write_text(HEADER)
    (home / "lib" / "libcudart.so.13").touch()
    return tmp_path


@needs_compiler
def test_driver_stub_has_soname_and_symbols_of_driver(site: Path) -> None:
    home: Path = CUDA_HOME["complete"](site)
    assert (home / "lib64" / "libcudart.so").resolve() == home / "lib" / "libcudart.so.13"
    stub = home / "lib64" / "stubs" / "libcuda.so"
    dynamic = subprocess.run(["readelf", "-Wd", stub], check=True, capture_output=True, text=True).stdout  # noqa: S603, S607
    assert "soname: [libcuda.so.1]" in dynamic
    symbols = subprocess.run(["nm", "-D", stub], check=True, capture_output=True, text=True).stdout  # noqa: S603, S607
    assert {" T cuInit", " T cuMemFree", " T cuMemFree_v2"} <= {line[16:] for line in symbols.splitlines()}


@needs_compiler
def test_second_run_leaves_cuda_home_unchanged(site: Path) -> None:
    CUDA_HOME["complete"](site)
    before = sorted((path, path.lstat().st_mtime_ns) for path in site.rglob("*"))
    CUDA_HOME["complete"](site)
    assert sorted((path, path.lstat().st_mtime_ns) for path in site.rglob("*")) == before


def test_installation_without_compiler_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no nvcc"):
        CUDA_HOME["complete"](tmp_path)


def test_the_runtime_is_installed_as_a_distribution(tmp_path: Path) -> None:
    stale: Any = tmp_path / "daybreak_runtime" / "gone.py"
    stale.parent.mkdir()
    stale.touch()
    RUNTIME["install"](ROOT / "runtime", tmp_path)
    assert not stale.exists()
    assert (tmp_path / "daybreak_runtime" / "py.typed").exists()
    [found] = importlib.metadata.distributions(path=[str(tmp_path)])
    assert found.metadata["Name"] == "daybreak-runtime"
    assert found.version
