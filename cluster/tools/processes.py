"""Long-running processes that outlive the program: started, recorded in a file, detected and stopped later.

A record contains the process id, the process's start time and the boot's id. If the kernel has given the
number to another process, that process is therefore never signaled.
"""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster.errors import ClusterError

_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
"""Processes that this run of the program started."""
END_SECONDS = 10.0
"""Maximum time for a process to end after it is killed or has lost its first thread, in seconds."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Record:
    """Process that this program started."""

    name: str
    pid: int
    started: int
    """Start time in clock ticks since boot, field 22 of /proc/<pid>/stat."""
    boot: str
    key: str
    """Hash of command, environment and the program's file."""

    @property
    def alive(self) -> bool:
        """Return True if exactly this process still runs (a zombie does not)."""
        return self.boot == _BOOT_ID.read_text().strip() and _start_time(self.pid) == self.started

    @property
    def resident_bytes(self) -> int:
        """Return the resident memory of the process in bytes (VmRSS)."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0


def parse_stat(text: str) -> tuple[str, int]:
    """Parse the state letter and the start time in ticks from /proc/<pid>/stat.

    Its second field may contain any characters.
    """
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _start_time(pid: int) -> int | None:
    try:
        state, started = parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except OSError:
        return None
    return None if state in "ZX" else started


def _reap() -> None:
    """Reap ended children of this run; processes of an earlier run are not its children."""
    for pid, child in list(_CHILDREN.items()):
        if child.poll() is not None:
            del _CHILDREN[pid]


def _collect(pid: int) -> None:
    """Reap an ending child: until all its threads have ended, its first one stays a zombie."""
    if child := _CHILDREN.pop(pid, None):
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            _CHILDREN[pid] = child


def _key(command: Sequence[str], environment: Mapping[str, str]) -> str:
    file = os.stat(command[0])
    what = [list(command), dict(environment), file.st_ino, file.st_mtime_ns]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


class Processes:
    """Processes of one cluster or control plane: records in `directory`/run, logs in `directory`/logs."""

    def __init__(self, directory: Path, started: Callable[[int], None] | None = None) -> None:
        """Call `started` with the id of each new process."""
        self._records = directory / "run"
        self._logs = directory / "logs"
        self._started = started

    def log(self, name: str) -> Path:
        """Return the file with the process's stdout and stderr."""
        return self._logs / f"{name}.log"

    def get(self, name: str) -> Record | None:
        """Return the recorded process of that name if it runs, or None."""
        _reap()
        record = self._recorded(name)
        return record if record and record.alive else None

    def _recorded(self, name: str) -> Record | None:
        try:
            return Record(**json.loads((self._records / f"{name}.json").read_text()))
        except FileNotFoundError:
            return None

    def recorded(self) -> list[str]:
        """Return the names of all processes started and not stopped since, running or not, oldest first."""
        files = sorted(self._records.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [file.stem for file in files]

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Record:
        """Start the command unless it already runs; if it runs with other arguments, restart it."""
        key = _key(command, environment or {})
        if running := self.get(name):
            if running.key == key:
                return running
            self.stop(name)
        self._records.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("wb") as log:
            child = subprocess.Popen(  # noqa: S603 -- the commands are this package's own
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={"PATH": os.environ["PATH"], "HOME": "/root", **(environment or {})},
                start_new_session=True,
            )
        _CHILDREN[child.pid] = child
        if self._started:
            self._started(child.pid)
        record = Record(name, child.pid, _start_time(child.pid) or 0, _BOOT_ID.read_text().strip(), key)
        (self._records / f"{name}.json").write_text(json.dumps(asdict(record)))
        return record

    def check(self, name: str) -> None:
        """Raise an error with the last line of its log if the process has ended."""
        if self.get(name) is None:
            raise ClusterError(f"{name} ended: {self.last_line(name)} (log: {self.log(name)})")

    def last_line(self, name: str) -> str:
        """Return the last line that the process wrote, cut to 300 characters."""
        try:
            lines = self.log(name).read_text(errors="replace").split("\n")
        except FileNotFoundError:
            return "no log"
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it wrote nothing")

    def stop(self, name: str, grace: float = 10.0) -> None:
        """Stop by SIGTERM, then SIGKILL after `grace` seconds; delete its record, keep its log."""
        recorded = self._recorded(name)
        if record := self.get(name):
            _signal(record, signal.SIGTERM)
            if not self._ended(name, grace):
                _signal(record, signal.SIGKILL)
                if not self._ended(name, END_SECONDS):
                    raise ClusterError(f"{name} (process {record.pid}) does not end, not even when killed")
        if recorded:
            _collect(recorded.pid)
        (self._records / f"{name}.json").unlink(missing_ok=True)

    def _ended(self, name: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.get(name) is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def _signal(record: Record, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, number)
