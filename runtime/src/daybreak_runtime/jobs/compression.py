"""Reading compressed files: gzip, bzip2, xz and Zstandard, recognized by their first bytes."""

import bz2
import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

ENDS = (".gz", ".gzip", ".bz2", ".xz", ".zst", ".zstd")
"""Ends of the names of files that are decompressed."""
_REJECTED = (
    *(".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar", ".tgz", ".tbz2", ".txz"),
    *(".zip", ".7z", ".rar", ".lz4", ".br", ".lzma", ".lzo", ".snappy", ".sz", ".z"),
)
"""Ends of the names of files that are compressed otherwise, or archives."""
_ARCHIVES = {b"PK\x03\x04": "zip", b"7z\xbc\xaf\x27\x1c": "7z", b"\x04\x22\x4d\x18": "lz4"}
"""First bytes of other compressed files."""
_HEAD = 6
ERRORS = (EOFError, zlib.error, lzma.LZMAError)
"""Errors of a truncated or damaged compressed file, in addition to an OSError of its decompressor."""


class CompressionError(ValueError):
    """A file is compressed in a way that is not read, or damaged."""


def plain_name(name: str) -> str:
    """Return a file's name in lower case, without the end that a compression adds."""
    lower = name.lower()
    return next((lower.removesuffix(end) for end in ENDS if lower.endswith(end)), lower)


def rejected_end(name: str) -> str:
    """Return the end of a name by which a file is compressed otherwise or an archive; empty if it is not."""
    lower = name.lower()
    return next((end for end in _REJECTED if lower.endswith(end)), "")


def rejection(kind: str) -> str:
    """Return the reason for a file's rejection, to follow its name."""
    return f"is compressed or an archive ({kind}): decompress it, or use one of {', '.join(ENDS)}"


@contextlib.contextmanager
def decompressed(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield the content of a file, decompressed if it is compressed. Raises CompressionError.

    Args:
        file: The file, at its beginning, which can seek.
    """
    head = file.read(_HEAD)
    file.seek(0)
    if kind := next((kind for magic, kind in _ARCHIVES.items() if head.startswith(magic)), ""):
        raise CompressionError(rejection(kind))
    opened = next((each for magic, each in _OPENERS.items() if head.startswith(magic)), None)
    if opened is None:
        yield file
        return
    source = _Source(file)
    try:
        with opened(source) as content:
            yield content
    except (*ERRORS, OSError) as error:
        if source.failed or isinstance(error, PermissionError | FileNotFoundError):
            raise
        raise CompressionError(f"cannot be decompressed: {error}") from error


class _Source(io.RawIOBase):
    """Compressed file. It records a failure of reading, which is no damage."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.failed = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._file.read(len(buffer))
        except OSError:
            self.failed = True
            raise
        buffer[: len(found)] = found
        return len(found)


def _gzip(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="rb"))


def _bzip2(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], bz2.BZ2File(file))


def _xz(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], lzma.LZMAFile(file))


def _zstandard(file: IO[bytes]) -> IO[bytes]:
    from pyarrow import CompressedInputStream, PythonFile

    # pyarrow's own file has no line iteration.
    return io.BufferedReader(CompressedInputStream(PythonFile(file, mode="r"), "zstd"))


_OPENERS: dict[bytes, Callable[[Any], IO[bytes]]] = {
    b"\x1f\x8b": _gzip,
    b"BZh": _bzip2,
    b"\xfd7zXZ\x00": _xz,
    b"\x28\xb5\x2f\xfd": _zstandard,
}
"""First bytes of the files that are read."""
