"""The build step that lets torch load without NVIDIA's libraries, tested with small libraries."""

import ctypes
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "images" / "ray-cpu" / "without_cuda.py"))

needs_binutils = pytest.mark.skipif(shutil.which("ld") is None, reason="needs as and ld (binutils)")


def call(name: str, *arguments: Any) -> Any:
    return SCRIPT[name](*arguments)


def run(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), check=True)  # noqa: S603 - binutils on files of the test


def test_needed_libraries_are_those_of_nvidia_wheels() -> None:
    dynamic = """
 0x0000000000000001 (NEEDED)             Shared library: [libcudart.so.13]
 0x0000000000000001 (NEEDED)             Shared library: [libc10_cuda.so]
 0x0000000000000001 (NEEDED)             Shared library: [libcuda.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000000e (SONAME)             Library soname: [libcudnn.so.9]
"""
    assert call("needed", dynamic) == {"libcudart.so.13"}


def test_undefined_symbols_are_those_of_nvidia_with_versions() -> None:
    symbols = """
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND cudaMalloc@libcudart.so.13 (4)
     2: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND ncclSend
     3: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND malloc@GLIBC_2.2.5 (2)
     4: 0000000000001040     8 FUNC    GLOBAL DEFAULT   12 ncclOwn
     5: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND nvshmem_init@NVSHMEM (7)
     6: 0000000000000000     0 NOTYPE  GLOBAL DEFAULT  UND PyLong_AsLong
"""
    assert set(call("undefined", symbols)) == {
        ("cudaMalloc", "libcudart.so.13"),
        ("ncclSend", ""),
        ("nvshmem_init", "NVSHMEM"),
    }


@needs_binutils
def test_stub_library_reports_no_cuda_device(tmp_path: Path) -> None:
    versions = {"libcudart.so.13": {"cudaGetDeviceCount", "cudaGetErrorString"}, "": {"ncclSend"}}
    (tmp_path / "stubs.s").write_text(call("assembly", set().union(*versions.values())))
    (tmp_path / "versions").write_text(call("version_script", versions))
    run("as", "-o", tmp_path / "stubs.o", tmp_path / "stubs.s")
    library = tmp_path / "libstubs.so"
    run("ld", "-shared", f"--version-script={tmp_path / 'versions'}", "-o", library, tmp_path / "stubs.o")
    stub = ctypes.CDLL(str(library))
    stub.cudaGetErrorString.restype = ctypes.c_char_p
    assert stub.cudaGetDeviceCount() == 100
    assert stub.ncclSend() == 100
    assert stub.cudaGetErrorString(100) == b"this image has no CUDA"


def library_with(tmp_path: Path, section: str, pages: int) -> Path:
    """Return a library with one function that reads data after the given read-only section."""
    (tmp_path / "code.s").write_text(
        f"""
.section .rodata
.quad 41
.section {section}, "a"
.zero {pages * 4096}
.section .behind, "a"
answer: .quad 42
.text
.globl answer_of_it
.type answer_of_it, @function
answer_of_it: mov answer(%rip), %rax
ret
.data
.globl counter
counter: .quad 7
.section .note.GNU-stack,"",@progbits
"""
    )
    library = tmp_path / "libcode.so"
    run("as", "-o", tmp_path / "code.o", tmp_path / "code.s")
    run("ld", "-shared", "--build-id", "-o", library, tmp_path / "code.o")
    return library


@needs_binutils
def test_library_works_after_section_is_removed(tmp_path: Path) -> None:
    library = library_with(tmp_path, ".nv_fatbin", pages=100)
    whole = library.read_bytes()
    cut = call("without_section", whole, ".nv_fatbin")
    assert len(whole) - len(cut) >= 98 * 4096
    smaller = tmp_path / "libsmaller.so"
    smaller.write_bytes(cut)
    loaded = ctypes.CDLL(str(smaller))
    loaded.answer_of_it.restype = ctypes.c_long
    assert loaded.answer_of_it() == 42
    assert ctypes.c_long.in_dll(loaded, "counter").value == 7


@needs_binutils
def test_missing_section_is_rejected(tmp_path: Path) -> None:
    library = library_with(tmp_path, ".other", pages=1)
    with pytest.raises(SystemExit, match=r"no section \.nv_fatbin"):
        call("without_section", library.read_bytes(), ".nv_fatbin")


def test_packages_without_torch_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no torch below"):
        call("main", tmp_path)
