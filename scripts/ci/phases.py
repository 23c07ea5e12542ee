"""Run phases in parallel lanes, and keep the log and the duration of each."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_GRACE_SECONDS = 20.0
"""Maximum time for an interrupted phase to end the servers that it has started, in seconds."""


@dataclass(frozen=True)
class Phase:
    """Command of a run.

    Attributes:
        name: Name for the table of durations and the log file; unique in a run.
        command: Program and arguments.
        nice: Increment of the command's scheduling niceness.
    """

    name: str
    command: Sequence[str]
    nice: int = 0


@dataclass(frozen=True)
class Outcome:
    """Result of a phase.

    Attributes:
        phase: The phase.
        status: Exit status; negative for a signal.
        seconds: Duration of the command.
        log: File with its output.
        interrupted: True if the run ended the phase because another one had failed.
    """

    phase: Phase
    status: int
    seconds: float
    log: Path
    interrupted: bool = False

    @property
    def failed(self) -> bool:
        """Return True if the phase itself failed."""
        return self.status != 0 and not self.interrupted


class Run:
    """Run of lanes.

    Args:
        logs: Folder for the log files.
        report: Receives progress, a line at a time.
    """

    def __init__(self, logs: Path, report: Callable[[str], None]) -> None:
        self.outcomes: list[Outcome] = []
        self._logs = logs
        self._report = report
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._cancelled = False

    def lanes(self, *lanes: Sequence[Phase]) -> bool:
        """Run lanes in parallel, the phases of each in order; return True if all succeeded.

        The first phase that fails ends the others.
        """
        threads = [threading.Thread(target=self._lane, args=(lane,), daemon=True) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.failure is None and not self._cancelled

    @property
    def failure(self) -> Outcome | None:
        """Return the phase that failed first, or None."""
        return next((outcome for outcome in self.outcomes if outcome.failed), None)

    def cancel(self) -> None:
        """End all running phases and start no more. The call can be repeated safely."""
        with self._lock:
            self._cancelled = True
            running = list(self._running.values())
        _end(running)

    def _lane(self, phases: Sequence[Phase]) -> None:
        for phase in phases:
            if self._cancelled:
                return
            outcome = self._execute(phase)
            with self._lock:
                self.outcomes.append(outcome)
            if outcome.status:
                if outcome.failed:
                    self.cancel()
                return

    def _execute(self, phase: Phase) -> Outcome:
        self._report(f"{phase.name} ...")
        log = self._logs / f"{phase.name.replace(' ', '-')}.log"
        begin = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 -- commands of this repository
                ["nice", "-n", str(phase.nice), *phase.command],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A dedicated process group, so that a phase ends together with all processes it started.
                start_new_session=True,
            )
        with self._lock:
            self._running[phase.name] = process
            cancelled = self._cancelled
        if cancelled:
            _end([process])
        status = process.wait()
        with self._lock:
            del self._running[phase.name]
            interrupted = status != 0 and self._cancelled
        seconds = time.monotonic() - begin
        ended = "interrupted" if interrupted else "ok" if status == 0 else f"FAILED (exit {status})"
        self._report(f"{phase.name}: {ended} after {seconds:.0f} s")
        return Outcome(phase, status, seconds, log, interrupted)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the process groups: by SIGINT and SIGTERM, so that they end their servers, then by SIGKILL."""
    for number, seconds in ((signal.SIGINT, _GRACE_SECONDS), (signal.SIGTERM, 5.0), (signal.SIGKILL, 0.0)):
        for process in processes:
            with suppress(ProcessLookupError):
                if process.poll() is None:
                    os.killpg(process.pid, number)
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
            time.sleep(0.05)
