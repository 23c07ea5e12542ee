"""Files of a source, and files that are already in the PVC."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

AT_ONCE = 8
"""Maximum number of files that are copied concurrently; each uses several connections."""


class Stuck(Exception):
    """Error that requires action by a user."""


class File(NamedTuple):
    """One file of the source."""

    path: str
    """Path relative to the source."""
    size: int


class Source(NamedTuple):
    """A source with its list of files."""

    files: list[File]
    revision: str | None
    fetch: Callable[[Path, list[File]], None]
    """Copies the files into a directory; existing files may be skipped."""


def place_of(into: Path, file: File) -> Path:
    """Return the target path of a file, which is never outside the directory, whatever the file's name."""
    place = into / file.path
    if ".." in Path(file.path).parts or not place.is_relative_to(into):
        raise Stuck(f"the source has a file of the name {file.path}")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def missing_of(into: Path, files: list[File]) -> list[File]:
    """Return the files that are missing or incomplete."""
    return [file for file in files if size_of(into / file.path) != file.size]


def copy_each(copy: Callable[[File], None], files: list[File]) -> None:
    """Copy all files concurrently; the first error ends the copy."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tasks = [pool.submit(copy, file) for file in files]
        try:
            for task in tasks:
                task.result()
        finally:
            pool.shutdown(cancel_futures=True)


def size_of(path: Path) -> int:
    """Return the size of a file in bytes, or -1 if it does not exist."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def files_below(directory: Path) -> list[Path]:
    """Return every file in a directory, recursively."""
    return [path for path in directory.rglob("*") if path.is_file()]
