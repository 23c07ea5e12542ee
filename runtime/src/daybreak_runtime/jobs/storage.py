"""Storage of files in a mounted volume or a bucket: list, read, and write atomically."""

import contextlib
import io
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit

from daybreak_runtime.jobs.problem import JobProblem

INPUT_MISSING = "InputNotFound"
NO_ACCESS = "AccessDenied"
_REFUSED = (
    "ACCESS_DENIED",
    "AccessDenied",
    "403",
    "Forbidden",
    "InvalidAccessKeyId",
    "NoSuchBucket",
    "OAuth2 access token",
)
"""Substrings of access errors that are not a PermissionError."""
GCS_SECONDS = 120.0
"""Maximum seconds for which Google's client retries. Its default is a quarter of an hour, even if a pod has
no identity."""
_BLOCK = 1024 * 1024
"""Bytes that are read from a bucket at once."""


@dataclass(frozen=True)
class Entry:
    """File of a storage."""

    path: str
    """Path within its storage."""
    name: str
    """Path relative to the listed folder."""
    size: int
    version: str
    """Version that changes with the content."""


class Storage(Protocol):
    """Interface of a storage."""

    def files(self, below: str = "") -> list[Entry]:
        """Return the file itself, or all files below a folder, sorted by name; empty if there are none."""
        ...

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file below the root atomically: readers see all of it or nothing."""
        ...

    def upload(self, name: str, file: IO[bytes]) -> None:
        """Write a file from an open file's current position; the content need not fit into memory."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file below the root, if it exists."""
        ...


class LocalStorage:
    """Storage of a mounted volume.

    Args:
        root: File or folder.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def files(self, below: str = "") -> list[Entry]:
        """Return the file itself, or all files below a folder, sorted by name; empty if there are none."""
        base = self._root / below if below else self._root
        with _explained(str(base)):
            if base.is_file():
                return [_entry(base, base.name)]
            found = []
            for folder, folders, names in os.walk(base, onerror=_raise):
                folders.sort()
                found += [Path(folder, name) for name in names]
            return sorted(
                (_entry(path, str(path.relative_to(base))) for path in found), key=lambda each: each.name
            )

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading."""
        with _explained(path):
            return Path(path).open("rb")

    def write(self, name: str, content: bytes) -> None:
        """Write a file below the root atomically: readers see all of it or nothing."""
        self.upload(name, io.BytesIO(content))

    def upload(self, name: str, file: IO[bytes]) -> None:
        """Write a file from an open file's current position; the content need not fit into memory."""
        target = self._root / name
        with _explained(str(target)):
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
            with partial.open("wb") as out:
                shutil.copyfileobj(file, out, _BLOCK)
                out.flush()
                os.fsync(out.fileno())
            partial.replace(target)

    def remove(self, name: str) -> None:
        """Remove a file below the root, if it exists."""
        with _explained(str(self._root / name)):
            (self._root / name).unlink(missing_ok=True)


class BucketStorage:
    """Storage of a bucket, through pyarrow; credentials come from the environment (variables, identity).

    Args:
        uri: `s3://bucket/prefix` or `gs://bucket/prefix`.
    """

    def __init__(self, uri: str) -> None:
        from pyarrow import fs

        parts = urlsplit(uri)
        with _explained(uri):
            self._fs: Any = _s3(fs) if parts.scheme == "s3" else _gcs(fs)
        # pyarrow 26 did not return from open_input_file of a Google bucket (test_gcs); it reads streams.
        self._copies = parts.scheme == "gs"
        self._kinds = fs.FileType
        self._selector = fs.FileSelector
        self._root = (parts.netloc + parts.path).rstrip("/")

    def files(self, below: str = "") -> list[Entry]:
        """Return the file itself, or all files below a prefix, sorted by name; empty if there are none."""
        base = f"{self._root}/{below}" if below else self._root
        with _explained(base):
            info = self._fs.get_file_info(base)
            if info.type == self._kinds.File:
                return [Entry(base, base.rpartition("/")[2], info.size, str(info.mtime_ns))]
            listed = self._fs.get_file_info(self._selector(base, allow_not_found=True, recursive=True))
        return sorted(
            (
                Entry(each.path, each.path[len(base) + 1 :], each.size, str(each.mtime_ns))
                for each in listed
                if each.type == self._kinds.File
            ),
            key=lambda each: each.name,
        )

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading."""
        with _explained(path):
            if self._copies:
                return copied(self._fs.open_input_stream(path))
            # pyarrow's own file has no line iteration.
            return io.BufferedReader(self._fs.open_input_file(path), _BLOCK)

    def write(self, name: str, content: bytes) -> None:
        """Write a file below the prefix: an upload is atomic."""
        self.upload(name, io.BytesIO(content))

    def upload(self, name: str, file: IO[bytes]) -> None:
        """Write a file from an open file's current position; the content need not fit into memory."""
        with _explained(f"{self._root}/{name}"), self._fs.open_output_stream(f"{self._root}/{name}") as out:
            shutil.copyfileobj(file, out, _BLOCK)

    def remove(self, name: str) -> None:
        """Remove a file below the prefix, if it exists."""
        with _explained(f"{self._root}/{name}"), contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(f"{self._root}/{name}")


def storage(uri: str) -> Storage:
    """Return the storage of a URI: `file://`, `s3://` or `gs://`."""
    parts = urlsplit(uri)
    return LocalStorage(unquote(parts.path)) if parts.scheme == "file" else BucketStorage(uri)


def copied(stream: Any) -> IO[bytes]:
    """Return the content of a stream as a file on the pod's disk, because Parquet needs random access."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 -- who asked for it closes it
    try:
        with stream:
            shutil.copyfileobj(stream, file, _BLOCK)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _s3(fs: Any) -> Any:
    """Return the S3 filesystem.

    By default pyarrow knows only AWS's own addresses, not others such as MinIO's.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return fs.S3FileSystem()
    parts = urlsplit(endpoint)
    return fs.S3FileSystem(endpoint_override=parts.netloc, scheme=parts.scheme)


def _gcs(fs: Any) -> Any:
    """Return the filesystem of Google's address with the pod's identity, or of an emulator without one."""
    limit = timedelta(seconds=GCS_SECONDS)
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if not emulator:
        return fs.GcsFileSystem(retry_time_limit=limit)
    parts = urlsplit(emulator if "://" in emulator else f"http://{emulator}")
    return fs.GcsFileSystem(
        anonymous=True, endpoint_override=parts.netloc, scheme=parts.scheme, retry_time_limit=limit
    )


def _entry(path: Path, name: str) -> Entry:
    status = path.stat()
    return Entry(str(path), name, status.st_size, str(status.st_mtime_ns))


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


@contextlib.contextmanager
def _explained(place: str) -> Iterator[None]:
    """Convert the errors of a storage that are permanent to problems."""
    try:
        yield
    except FileNotFoundError as error:
        raise JobProblem(INPUT_MISSING, f"{place} is not there") from error
    except PermissionError as error:
        raise JobProblem(NO_ACCESS, f"no right to {place}: {error.strerror or error}") from error
    except OSError as error:
        if any(word in str(error) for word in _REFUSED):
            raise JobProblem(NO_ACCESS, f"no right to {place}: {error}") from error
        raise
