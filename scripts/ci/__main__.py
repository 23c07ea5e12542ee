"""Run the checks that every commit on main must pass (`.ci/run`), and exit non-zero at the first failure.

The cluster and its images are built in parallel with lint and tests. The stories run after the tests, since
both need all cores. Logs of the phases are in `.daybreak-ci/`, which git ignores.
"""

import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from scripts.ci import green
from scripts.ci.failures import excerpt
from scripts.ci.phases import Outcome, Phase, Run

REPOSITORY = Path(__file__).resolve().parents[2]
LOGS = REPOSITORY / ".daybreak-ci"
CLOSING_LINES = 14
"""Number of lines printed of a phase that has run tests: its slowest tests and its count."""

ENVIRONMENT = (Phase("environment", ["make", "setup"]),)
CHECKS = (Phase("lint", ["make", "lint"]), Phase("test", ["make", "test"]))
CLUSTER = (Phase("cluster", ["make", "cluster"], nice=5),)
STORIES = (Phase("e2e", ["make", "e2e"]),)
# `make down` removes the checkout's own Python, so the machine's Python checks for leftovers.
REMOVAL = (Phase("down", ["make", "down"]), Phase("nothing left", ["python3", "cluster/machine/left.py"]))


def main() -> int:
    """Run all phases and return the exit status."""
    begin = time.monotonic()

    def report(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - begin), 60)
        print(f"[{minutes:2d}:{seconds:02d}] {line}", flush=True)

    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir()
    commit = green.committed(REPOSITORY)
    run, removal = Run(LOGS, report), Run(LOGS, report)

    def stop(number: int, frame: FrameType | None) -> None:
        run.cancel()
        removal.lanes(REMOVAL)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    passed = run.lanes(ENVIRONMENT) and run.lanes(CHECKS, CLUSTER) and run.lanes(STORIES)
    clean = removal.lanes(REMOVAL)
    outcomes = [*run.outcomes, *removal.outcomes]
    print_closing_lines(outcomes)
    print_durations(outcomes, time.monotonic() - begin)
    if passed and clean:
        recorded = green.record(REPOSITORY, commit)
        report(f"green: {commit}" if recorded else "green; not recorded: the working tree is no commit")
        return 0
    print_failure(run.failure or removal.failure)
    return 1


def print_closing_lines(outcomes: list[Outcome]) -> None:
    """Print the last lines of the test runners' output."""
    for outcome in outcomes:
        if outcome.phase.name in ("test", "e2e"):
            lines = outcome.log.read_text(errors="replace").splitlines()
            print("\n".join([f"--- {outcome.phase.name}", *lines[-CLOSING_LINES:]]), flush=True)


def print_durations(outcomes: list[Outcome], total: float) -> None:
    """Print a table of the phases; they overlap, so the total is less than their sum."""
    print(f"{'phase':<16}{'seconds':>8}  result")
    for outcome in outcomes:
        result = "interrupted" if outcome.interrupted else "failed" if outcome.failed else "ok"
        print(f"{outcome.phase.name:<16}{outcome.seconds:>8.0f}  {result}")
    print(f"{'total':<16}{total:>8.0f}", flush=True)


def print_failure(outcome: Outcome | None) -> None:
    """Print the lines that explain the failure, at the end of the output, which CI keeps."""
    if outcome is None:
        print("ci: interrupted", flush=True)
        return
    lines = excerpt(outcome.log.read_text(errors="replace"))
    print("\n".join([f"--- {outcome.phase.name} failed", *lines]), flush=True)
    print(f"ci: {outcome.phase.name} failed with exit status {outcome.status}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
