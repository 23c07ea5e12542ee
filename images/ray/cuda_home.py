"""Make the folder that NVIDIA's wheels share (`nvidia/cu13`) a CUDA_HOME that one can link against.

The wheels are made for loading: the libraries carry their version in the name (`libcudart.so.13`) and lie in
`lib`. What compiles when it is first needed (FlashInfer, DeepGEMM, torch's extensions) links as with NVIDIA's
own installer: `-L$CUDA_HOME/lib64 -L$CUDA_HOME/lib64/stubs -lcudart -lcuda`. This script adds the names that
are missing, and a stub of the driver's library, which no wheel has: the driver comes from the node, and only
where there is one can its own be linked against.

Usage: cuda_home.py SITE_PACKAGES. Needs `cc`. It may be run again; it changes nothing then.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path("nvidia", "cu13")
DRIVER = "libcuda.so.1"
"""The name under which the driver's library is loaded, and which the stub puts into what links with it."""

_VERSIONED = re.compile(r"(?P<linked>lib[\w+-]+\.so)\.(?P<version>[\d.]+)")
_DECLARED = re.compile(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(")
_RENAMED = re.compile(r"^\s*#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*_v\d+)\s*$", re.MULTILINE)


def link_names(libraries: list[str]) -> dict[str, str]:
    """Name to link with → file, for each library whose unversioned name is not there."""
    found: dict[str, str] = {}
    for file in sorted(libraries, key=_version):
        match = _VERSIONED.fullmatch(file)
        if match and match["linked"] not in libraries:
            found[match["linked"]] = file
    return found


def _version(file: str) -> list[int]:
    match = _VERSIONED.fullmatch(file)
    return [int(number) for number in match["version"].split(".")] if match else []


def driver_functions(header: str) -> list[str]:
    """Every function of the driver that `cuda.h` declares, also under the name with which it is linked."""
    names = set(_DECLARED.findall(header)) | set(_RENAMED.findall(header))
    return sorted(names)


def write_stub(header: Path, stub: Path) -> None:
    """Link a library that has the driver's name and functions, and does nothing."""
    functions = driver_functions(header.read_text(errors="replace"))
    if "cuInit" not in functions:
        raise SystemExit(f"{header} declares no cuInit: it is written in another way now")
    stub.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "stub.c")
        source.write_text("".join(f"void {name}(void) {{}}\n" for name in functions))
        command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{DRIVER}"]
        subprocess.run([*command, "-o", str(stub), str(source)], check=True)  # noqa: S603 - a compiler


def complete(site: Path) -> Path:
    """Add what is missing to the CUDA folder of an installation; returns that folder."""
    home = site / HOME
    libraries = home / "lib"
    if not (home / "bin" / "nvcc").exists():
        raise SystemExit(f"{home} has no nvcc: is nvidia-cuda-nvcc installed?")
    _link(home / "lib64", "lib")
    for name, file in link_names([path.name for path in libraries.iterdir()]).items():
        _link(libraries / name, file)
    stub = libraries / "stubs" / "libcuda.so"
    if not stub.exists():
        write_stub(home / "include" / "cuda.h", stub)
    return home


def _link(name: Path, target: str) -> None:
    if not name.is_symlink() and not name.exists():
        name.symlink_to(target)


if __name__ == "__main__":
    print(complete(Path(sys.argv[1])))
