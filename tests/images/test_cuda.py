"""images/ray compiles and links CUDA with the packages of its lock. The tests need no GPU.

The compiler takes ten minutes of a core, so these tests run in `make test-long` only. The last of them writes
the hash of the lock that it has compiled with; `test_compiled_lock.py`, which CI runs, compares it.
"""

import re
import subprocess
from pathlib import Path

import pytest

from cluster.images import cuda
from cluster.tools.report import Report
from daybreak import versions
from tests.images import compiled

ARCHITECTURE = "8.0"
"""One, for time's sake: it takes two minutes of one core."""
CUB = """\
#include <cub/cub.cuh>

__global__ void sum(int const* in, int* out) {
  __shared__ cub::BlockReduce<int, 128>::TempStorage scratch;
  int total = cub::BlockReduce<int, 128>(scratch).Sum(in[threadIdx.x]);
  if (threadIdx.x == 0) *out = total;
}

void start(int const* in, int* out) { sum<<<1, 128>>>(in, out); }
"""


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def packages() -> Path:
    return cuda.environment(Report())


@pytest.fixture(scope="module")
def home(packages: Path) -> Path:
    return packages / "nvidia" / "cu13"


def run(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - a compiler
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def loads(library: Path) -> set[str]:
    """Return the libraries that the loader must find."""
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "--wide", "--dynamic", library)))


def test_nvcc_release_equals_declared_cuda_version(home: Path) -> None:
    assert f"release {versions.CUDA}," in run(home / "bin" / "nvcc", "--version")


@pytest.mark.xdist_group("cuda")
@pytest.mark.timeout(900)
def test_cub_compiles_and_links(packages: Path, home: Path, tmp_path: Path) -> None:
    source, unit, library = (tmp_path / name for name in ("sum.cu", "sum.o", "libsum.so"))
    source.write_text(CUB)
    cccl = packages / "flashinfer" / "data" / "cccl"
    headers = [f"-I{cccl / each}" for each in ("cub", "libcudacxx/include", "thrust")]
    gencode = "-gencode=arch=compute_90a,code=sm_90a"
    options: list[str | Path] = ["-std=c++17", "-Xcompiler", "-fPIC", gencode, "-isystem", home / "include"]
    run(home / "bin" / "nvcc", *headers, *options, "-c", source, "-o", unit)
    link = [f"-L{home}/lib64", f"-L{home}/lib64/stubs", "-lcudart", "-lcuda"]
    run("c++", unit, "-shared", "-Wl,--no-as-needed", *link, "-o", library)
    assert {"libcudart.so.13", "libcuda.so.1"} <= loads(library)


@pytest.mark.xdist_group("cuda")
@pytest.mark.timeout(1800)
def test_flashinfers_sampling_kernels_compile_and_link(packages: Path) -> None:
    library = cuda.sampling_library(packages, ARCHITECTURE)
    assert "libcudart.so.13" in loads(library)
    symbols = run("nm", "--dynamic", "--defined-only", library)
    # As vLLM's sampler calls them, under tvm-ffi's names.
    for function in ("top_k_top_p_sampling_from_probs", "top_p_sampling_from_probs"):
        assert f"__tvm_ffi_{function}" in symbols
    compiled.write()
