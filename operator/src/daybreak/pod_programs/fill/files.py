"""The files of a source, and those that are in the claim already."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

AT_ONCE = 8
"""Files that are copied at the same time; each by several connections."""


class Stuck(Exception):
    """Somebody has to act before it can work."""


class File(NamedTuple):
    """One file of the source."""

    path: str
    """Path below the source."""
    size: int


class Source(NamedTuple):
    """A source, listed."""

    files: list[File]
    revision: str | None
    fetch: Callable[[Path, list[File]], None]
    """Copies the files into a directory; those that are there already may be passed over."""


def place_of(into: Path, file: File) -> Path:
    """Where a file goes. Never out of the directory, whatever its name."""
    place = into / file.path
    if ".." in Path(file.path).parts or not place.is_relative_to(into):
        raise Stuck(f"the source has a file of the name {file.path}")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def missing_of(into: Path, files: list[File]) -> list[File]:
    """Those that are not there, or not whole."""
    return [file for file in files if size_of(into / file.path) != file.size]


def copy_each(copy: Callable[[File], None], files: list[File]) -> None:
    """Copy all of them, several at once; the first error ends it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tasks = [pool.submit(copy, file) for file in files]
        try:
            for task in tasks:
                task.result()
        finally:
            pool.shutdown(cancel_futures=True)


def size_of(path: Path) -> int:
    """Its bytes; -1 when it is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def files_below(directory: Path) -> list[Path]:
    """Every file in a directory, however deep."""
    return [path for path in directory.rglob("*") if path.is_file()]
