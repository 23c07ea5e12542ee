"""Run other programs to their end and turn a failure into one line."""

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cluster.errors import ClusterError
from cluster.tools import download

END_SECONDS = 10.0
"""Maximum time for a program to end after SIGTERM, in seconds."""
_RUNNING: set[subprocess.Popen[bytes]] = set()
_CLOSED = threading.Event()
"""Set while no program may be started."""
_STARTING = threading.Lock()


def search_path() -> str:
    """Return PATH with root's program folders, which `su` and `sudo env PATH=$PATH` may omit."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def run(
    command: Sequence[str | Path],
    *,
    stdin: str | bytes | None = None,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 3600.0,
    downloads: str = "",
) -> str:
    """Run a program and return its output.

    Args:
        command: Program and arguments.
        stdin: Text for its standard input.
        directory: Folder to run in.
        environment: Variables in addition to the current ones.
        timeout: Seconds after which the program is killed.
        downloads: Name of the download, for the error of a machine without network.

    Raises:
        ClusterError: The program is missing, failed or took too long; with its last line on stderr.
    """
    words = [str(word) for word in command]
    shown = " ".join([Path(words[0]).name, *words[1:]])[:200]
    content = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        with _started(words, content is not None, directory, environment or {}) as child:
            output, errors = child.communicate(content, timeout)
    except FileNotFoundError:
        raise ClusterError(f"{words[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"`{shown}` was not done after {timeout:.0f} s") from None
    if child.returncode:
        report = errors.decode(errors="replace").strip()
        if downloads and (unreachable := download.cannot(downloads, report)):
            raise ClusterError(unreachable)
        lines = report.splitlines()
        raise ClusterError(f"`{shown}` failed: {lines[-1] if lines else f'exit status {child.returncode}'}")
    return output.decode(errors="replace")


@contextlib.contextmanager
def _started(
    words: Sequence[str], has_input: bool, directory: Path | None, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program during the block; an error in the block kills it."""
    with _STARTING:
        if _CLOSED.is_set():
            raise ClusterError(f"{words[0]} was not started, since something else has failed")
        child = subprocess.Popen(  # noqa: S603 -- the commands are this package's own, without a shell
            words,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env={**os.environ, "PATH": search_path(), **environment},
        )
        _RUNNING.add(child)
    try:
        with child:
            try:
                yield child
            except BaseException:
                child.kill()
                raise
    finally:
        _RUNNING.discard(child)


@contextlib.contextmanager
def none_running() -> Iterator[None]:
    """End the programs that other threads run, and prevent new ones during the block.

    Those threads get a ClusterError.
    """
    with _STARTING:
        _CLOSED.set()
        # A copy in one step: programs that end remove themselves at the same time.
        running = [child.pid for child in list(_RUNNING)]
    try:
        _end([member for pid in running for member in _family(pid)])
        yield
    finally:
        _CLOSED.clear()


def _family(pid: int) -> list[int]:
    """Return the process and all its descendants, which do not always end with it."""
    found = [pid]
    for parent in found:  # the list grows during the loop
        for file in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, file.read_text().split())
    return found


def _end(pids: Sequence[int]) -> None:
    """Send SIGTERM, so that programs can clean up, and SIGKILL to programs that do not end."""
    with contextlib.ExitStack() as stack:
        handles = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                # Unlike a number, a handle never refers to another process.
                handles.append(os.pidfd_open(pid))
                stack.callback(os.close, handles[-1])
        _signal(handles, signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        while handles and time.monotonic() < deadline:
            ended = select.select(handles, [], [], deadline - time.monotonic())[0]
            handles = [handle for handle in handles if handle not in ended]
        _signal(handles, signal.SIGKILL)


def _signal(handles: Sequence[int], number: signal.Signals) -> None:
    for handle in handles:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
