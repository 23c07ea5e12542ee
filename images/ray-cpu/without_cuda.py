"""Make PyPI's torch, which is built for CUDA, load without NVIDIA's libraries.

torch's Linux wheels are linked against a dozen CUDA libraries (2.7 GB, 40 % of the image) that a machine
without a GPU never calls, and no CPU-only wheel of this torch is on PyPI. The loader still wants each
library and each symbol by name. This script reads, from the installed ELF files, exactly what they ask of
the libraries that are not there, and links one small library that answers all of it: every function returns
100, CUDA's "no device". So torch sees what it sees on any machine without a GPU: no CUDA device. The GPU
code inside torch's own CUDA library, 300 MB that only a GPU could run, goes too.

Usage: without_cuda.py SITE_PACKAGES. Needs `as`, `ld` and `readelf` (binutils).
"""

import re
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

# The sonames of NVIDIA's wheels. libcuda and libnvidia-ml come with the driver and torch opens them itself.
CUDA_LIBRARY = re.compile(
    r"lib(cudart|cupti|cublas|cublasLt|cusparse|cusparseLt|cufft|cufile|curand|cusolver|cudnn|nccl|nvrtc"
    r"|nvJitLink|nvshmem_host)\.so\.\d+"
)
# The libraries without symbol versions are known by the names of their functions.
CUDA_FUNCTION = re.compile(r"(nccl|cusparseLt|cuFile|curand|nvshmem)[A-Za-z_]\w*")
# The version that nvshmem gives its symbols is not its soname.
CUDA_VERSION = re.compile(CUDA_LIBRARY.pattern + "|NVSHMEM")
# torch loads this one by hand at the first CUDA call that needs it.
NEVER_LOADED = "libtorch_cuda_linalg.so"
GPU_CODE = "libtorch_cuda.so", ".nv_fatbin"
STUB = "libcuda_stubs.so"

PAGE = 4096
PT_LOAD, PT_NOTE = 1, 4


def needed(readelf_dynamic: str) -> set[str]:
    """Return the CUDA sonames in the output of `readelf --dynamic`."""
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf_dynamic)
    return {name for name in names if CUDA_LIBRARY.fullmatch(name)}


def undefined(readelf_symbols: str) -> Iterator[tuple[str, str]]:
    """Yield (symbol, version) of every undefined CUDA symbol in the output of `readelf --dyn-syms`."""
    for line in readelf_symbols.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] != "UND":
            continue
        symbol, _, version = fields[7].partition("@")
        if CUDA_VERSION.fullmatch(version) or (not version and CUDA_FUNCTION.fullmatch(symbol)):
            yield symbol, version


def assembly(symbols: Iterable[str]) -> str:
    """Return x86-64 assembly that defines each symbol as a function returning 100 or, for texts, a text."""
    lines = [".section .rodata", 'text: .asciz "this image has no CUDA"', ".text"]
    for symbol in sorted(symbols):
        answer = "lea text(%rip), %rax" if re.search(r"(String|Name)$", symbol) else "mov $100, %eax"
        lines += [f".globl {symbol}", f".type {symbol}, @function", f"{symbol}: {answer}", "ret"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""])


def version_script(versions: dict[str, set[str]]) -> str:
    """Return a linker script that gives each symbol its version; the unversioned ones get any version."""
    nodes = []
    for version in sorted(versions):
        names = " ".join(f"{symbol};" for symbol in sorted(versions[version]))
        nodes.append(f"{version or 'UNVERSIONED'} {{ global: {names} }};")
    return "\n".join([*nodes, ""])


class Segment(NamedTuple):
    """An ELF program header: a part of the file and where the loader puts it."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    in_file: int
    in_memory: int
    align: int

    def holds(self, first: int, last: int) -> bool:
        """Return True if the loader reads these addresses from this part of the file."""
        return self.kind == PT_LOAD and self.address <= first and last <= self.address + self.in_file


SEGMENT = struct.Struct("<IIQQQQQQ")


def without_section(elf: bytes, section: str) -> bytes:
    """Return a 64-bit ELF library with only what the loader maps, less the pages of one read-only section.

    The addresses stay: the loader leaves a hole where the section was. The program header that this takes is
    that of the build's note; section headers and unneeded symbols are not mapped and fall away.
    """
    table, count = struct.unpack_from("<Q", elf, 32)[0], struct.unpack_from("<H", elf, 56)[0]
    start, size = _section(elf, section)
    first, last = -(-start // PAGE) * PAGE, (start + size) // PAGE * PAGE
    segments: list[Segment] = []
    for index in range(count):
        segment = Segment._make(SEGMENT.unpack_from(elf, table + SEGMENT.size * index))
        if segment.holds(first, last):
            before, after = first - segment.address, last - segment.address
            segments.append(segment._replace(in_file=before, in_memory=before))
            segments.append(
                segment._replace(
                    offset=segment.offset + after,
                    address=last,
                    physical=last,
                    in_file=segment.in_file - after,
                    in_memory=segment.in_memory - after,
                )
            )
        elif segment.kind != PT_NOTE:
            segments.append(segment)
    if len(segments) != count:
        raise SystemExit(
            f"{section} cannot be cut out: {len(segments)} program headers, there is room for {count}"
        )
    out = bytearray()
    moved: list[Segment] = []
    for segment in segments:
        if segment.kind == PT_LOAD:
            # The place in the file and the address must agree within a page.
            place = -(-len(out) // PAGE) * PAGE + segment.address % PAGE
            out += bytes(place - len(out)) + elf[segment.offset : segment.offset + segment.in_file]
            segment = segment._replace(offset=place)
        moved.append(segment)
    loaded = [segment for segment in moved if segment.kind == PT_LOAD]
    for index, segment in enumerate(moved):
        for load in loaded:
            if segment.kind != PT_LOAD and load.holds(segment.address, segment.address + 1):
                segment = segment._replace(offset=load.offset + segment.address - load.address)
        SEGMENT.pack_into(out, table + SEGMENT.size * index, *segment)
    struct.pack_into("<Q", out, 40, 0)  # no section headers: neither their place ...
    struct.pack_into("<HHH", out, 58, 0, 0, 0)  # ... nor their size, number and names
    return bytes(out)


def _section(elf: bytes, section: str) -> tuple[int, int]:
    """Return address and size of a section."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    count, names_index = struct.unpack_from("<HH", elf, 60)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + 64 * index) for index in range(count)]
    names = headers[names_index][4]
    for name, _, _, address, _, size in headers:
        if elf[names + name : elf.index(b"\0", names + name)].decode() == section:
            return address, size
    raise SystemExit(f"no section {section}: torch is built in another way now")


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - own commands


def _elf_files(site: Path) -> Iterator[Path]:
    for path in sorted(site.glob("torch*/**/*.so*")):
        with path.open("rb") as file:
            if not path.is_symlink() and file.read(4) == b"\x7fELF":
                yield path


def main(site: Path) -> None:
    """Link the stub next to torch's libraries by the name of each missing library; remove the GPU code."""
    libraries = site / "torch" / "lib"
    (libraries / NEVER_LOADED).unlink(missing_ok=True)
    sonames: set[str] = set()
    versions: dict[str, set[str]] = defaultdict(set)
    for path in _elf_files(site):
        if missing := needed(_run("readelf", "--wide", "--dynamic", str(path))):
            sonames |= missing
            for symbol, version in undefined(_run("readelf", "--wide", "--dyn-syms", str(path))):
                versions[version].add(symbol)
    if not sonames:
        raise SystemExit(
            f"no torch below {site} asks for a CUDA library: take this step out of the Dockerfile"
        )
    with tempfile.TemporaryDirectory() as scratch:
        source, script, unit = (Path(scratch, name) for name in ("stubs.s", "versions", "stubs.o"))
        source.write_text(assembly(set().union(*versions.values())))
        script.write_text(version_script(versions))
        stub = libraries / STUB
        _run("as", "-o", str(unit), str(source))
        _run("ld", "-shared", "-soname", STUB, f"--version-script={script}", "-o", str(stub), str(unit))
    for soname in sorted(sonames):
        (libraries / soname).symlink_to(STUB)
    library = libraries / GPU_CODE[0]
    library.write_bytes(without_section(library.read_bytes(), GPU_CODE[1]))
    count = sum(map(len, versions.values()))
    print(f"{STUB}: {count} functions of {len(sonames)} libraries: {', '.join(sorted(sonames))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
