"""Copy of weights into a temporary directory of the PVC, which is renamed when complete."""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from daybreak.pod_programs.fill.files import Source, Stuck, files_below, missing_of, size_of
from daybreak.pod_programs.fill.progress import Progress
from daybreak.pod_programs.fill.sources import listed

MARKER = ".daybreak-complete"
GATHERING = ".daybreak-filling-"
LOCK = ".daybreak-lock-"
SPARE_BYTES = 16 * 2**20
"""Space in bytes that must stay free in addition to the weights, for the file system itself."""


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock that only one process of the PVC can have at a time, if its file system supports locks."""
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            print(f"no locks here ({error}): two Jobs may copy the same", flush=True)
        yield


def fill(order: dict[str, Any]) -> dict[str, Any]:
    """Fill the directory and return the result."""
    root, directory = Path(order["root"]), order["directory"]
    progress = Progress(directory)
    with progress.reported(order["port"]), alone(root / f"{LOCK}{directory}"):
        reported = _kept(root / directory)
        if reported is None:
            source = listed(order["source"], order["revision"])
            if not source.files:
                raise Stuck(f"there are no files below {order['source']}")
            if order["sole"]:
                _make_room(root, directory)
            reported = _gather(root, directory, source, progress)
        else:
            # The last requested directory is the one in use: see _make_room.
            os.utime(root / directory / MARKER)
    return reported


def _kept(directory: Path) -> dict[str, Any] | None:
    """Return the stored result of a complete directory, or None if it is incomplete."""
    try:
        found: dict[str, Any] = json.loads((directory / MARKER).read_text())
    except (OSError, ValueError):
        return None
    return found


def _make_room(root: Path, directory: str) -> None:
    """Remove unused weights: all except the last requested ones, which pods may have open."""
    whole = [each.parent for each in root.glob(f"[!.]*/{MARKER}")]
    latest = max(whole, key=lambda each: (each / MARKER).stat().st_mtime, default=None)
    stale = [each for each in root.glob(f"{GATHERING}*") if each.name != f"{GATHERING}{directory}"]
    for each in [*stale, *(each for each in whole if each != latest)]:
        print(f"removing {each.name}", flush=True)
        # Remove the marker first: a partly removed directory must not look complete.
        (each / MARKER).unlink(missing_ok=True)
        shutil.rmtree(each)


def _gather(root: Path, directory: str, source: Source, progress: Progress) -> dict[str, Any]:
    into = root / f"{GATHERING}{directory}"
    into.mkdir(exist_ok=True)
    total = sum(file.size for file in source.files)
    space = shutil.disk_usage(root)
    needed = total - sum(max(0, size_of(path)) for path in files_below(into)) + SPARE_BYTES
    if space.total and needed > space.free:
        raise Stuck(
            f"{gib(needed)} more are needed in the PVC, and {gib(space.free)} are free: make it larger"
        )
    print(f"copying {len(source.files)} files, {gib(total)}", flush=True)
    progress.begin(into, total)
    source.fetch(into, source.files)
    missing = missing_of(into, source.files)
    if missing:
        raise OSError(f"{len(missing)} files did not come whole, such as {missing[0].path}")
    desired = {into / file.path for file in source.files}
    for path in files_below(into):
        if path not in desired:  # partial files of an aborted attempt
            path.unlink()
    shutil.rmtree(into / ".cache", ignore_errors=True)  # metadata of the hub's library
    reported = {"bytes": total, "revision": source.revision}
    _write(into / MARKER, json.dumps(reported))
    whole = root / directory
    if whole.exists():  # without a marker: another process has removed it or begins to remove the directory
        shutil.rmtree(whole)
    into.rename(whole)
    return reported


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def gib(size: int) -> str:
    """Return a number of bytes in GiB."""
    return f"{size / 2**30:.1f} GiB"
