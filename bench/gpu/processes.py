"""Third-party processes: start with a log, check, and end with all descendants."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil

END_SECONDS = 15.0
T = TypeVar("T")


class Failed(Exception):
    """Process that did not start, did not answer, or ended unexpectedly."""


class Process:
    """Process with a log file; its descendants end with it."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self.started = time.time()
        with log.open("ab") as output:
            self._popen = subprocess.Popen(  # noqa: S603 -- this package's own commands
                list(command), env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._process = psutil.Process(self._popen.pid)

    def family(self) -> list[psutil.Process]:
        """Return the process and all its descendants."""
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def check(self) -> None:
        """Raise Failed, with the end of the log, if the process has ended."""
        if self._popen.poll() is not None:
            raise Failed(f"{self.name} ended with {self._popen.returncode}:\n{tail(self.log)}")

    @property
    def peak_mib(self) -> float:
        """Return the peak memory (RSS) of the process so far, without its descendants."""
        return self._status_mib("VmHWM")

    @property
    def own_mib(self) -> float:
        """Return the current memory (RSS) of the process, without its descendants and shared mappings."""
        return self._status_mib("VmRSS") - self._status_mib("RssShmem")

    def _status_mib(self, name: str) -> float:
        status = Path(f"/proc/{self._popen.pid}/status").read_text()
        return int(status.partition(f"{name}:")[2].split()[0]) / 1024

    def kill(self) -> None:
        """Kill the process and its descendants at once, as the loss of a node does."""
        family = self.family()
        for one in family:
            _send(one.kill)
        psutil.wait_procs(family, timeout=END_SECONDS)

    def end(self, patience: float = END_SECONDS) -> None:
        """Terminate the process and its descendants, then kill the remaining ones."""
        family = self.family()
        for one in family:
            _send(one.terminate)
        _, left = psutil.wait_procs(family, timeout=patience)
        for one in left:
            _send(one.kill)
        psutil.wait_procs(left, timeout=END_SECONDS)
        self._popen.wait(END_SECONDS)


@contextmanager
def process(
    name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Iterator[Process]:
    """Run a process until the block ends, with its log in the folder."""
    one = Process(name, command, environment, folder / f"{name}.log")
    try:
        yield one
    finally:
        one.end()


def until(what: str, look: Callable[[], T | None], seconds: float, *alive: Process, pause: float = 0.25) -> T:
    """Poll until `look` returns a result, and return the result.

    Raises Failed if that takes too long, or if one of the processes ends while waiting.
    """
    last = time.monotonic() + seconds
    while True:
        for one in alive:
            one.check()
        if (found := look()) is not None:
            return found
        if time.monotonic() > last:
            logs = "\n".join(f"--- {one.name}\n{tail(one.log)}" for one in alive)
            raise Failed(f"{what}: not within {seconds:.0f} s\n{logs}")
        time.sleep(pause)


def tail(log: Path, lines: int = 40) -> str:
    """Return the last lines of a log."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 20_000))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])


def environment(*more: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without its private variables, and with more variables."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RAY_ADDRESS")}
    for variables in more:
        own |= variables
    return own


def _send(signal: Callable[[], None]) -> None:
    try:
        signal()
    except psutil.NoSuchProcess:
        return
