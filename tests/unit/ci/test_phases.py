"""Phases in lanes: the first failure ends the others and the processes that they started."""

import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from scripts.ci.phases import Phase, Run


@pytest.fixture
def lines() -> list[str]:
    """Return the lines that the run reports."""
    return []


@pytest.fixture
def run(tmp_path: Path, lines: list[str]) -> Run:
    return Run(tmp_path, lines.append)


def python(name: str, code: str) -> Phase:
    """Return a phase that runs a few lines of Python."""
    return Phase(name, [sys.executable, "-c", code])


def test_lanes_run_in_parallel(run: Run, tmp_path: Path) -> None:
    """Each lane waits for a file that the other lane creates."""
    meet = (
        "import pathlib, time\n"
        "pathlib.Path({own!r}).touch()\n"
        "while not pathlib.Path({other!r}).exists(): time.sleep(0.01)"
    )
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    lanes = (
        [python("first", meet.format(own=one, other=two))],
        [python("second", meet.format(own=two, other=one))],
    )
    assert run.lanes(*lanes)
    assert {outcome.phase.name: outcome.status for outcome in run.outcomes} == {"first": 0, "second": 0}


def test_output_is_kept_in_the_log_of_the_phase(run: Run) -> None:
    assert run.lanes([python("two words", "import sys; print('out'); print('err', file=sys.stderr)")])
    [outcome] = run.outcomes
    assert outcome.log.name == "two-words.log"
    assert sorted(outcome.log.read_text().split()) == ["err", "out"]


def test_failure_skips_the_rest_of_its_lane(run: Run, lines: list[str]) -> None:
    assert not run.lanes([python("bad", "raise SystemExit(3)"), python("never", "")])
    assert [outcome.phase.name for outcome in run.outcomes] == ["bad"]
    assert run.failure is not None
    assert run.failure.status == 3
    assert any("bad: FAILED (exit 3)" in line for line in lines)


def test_failure_ends_other_lanes_and_their_children(run: Run, tmp_path: Path) -> None:
    written = tmp_path / "child"
    parent = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(written)!r}).write_text(str(child.pid))\n"
        "time.sleep(600)"
    )
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(written)!r}).exists(): time.sleep(0.01)\n"
    bad = python("bad", f"{wait}time.sleep(0.2)\nraise SystemExit(1)")
    begin = time.monotonic()
    assert not run.lanes([bad], [python("long", parent)])
    assert time.monotonic() - begin < 60
    assert {outcome.phase.name: outcome.interrupted for outcome in run.outcomes} == {
        "bad": False,
        "long": True,
    }
    assert run.failure is not None
    assert run.failure.phase.name == "bad"
    assert not alive(int(written.read_text()))


def test_cancelled_run_is_not_green_and_has_no_failure(run: Run, tmp_path: Path) -> None:
    started = tmp_path / "started"
    long = python("long", f"import pathlib, time; pathlib.Path({str(started)!r}).touch(); time.sleep(600)")

    def cancel() -> None:
        while not started.exists():
            time.sleep(0.01)
        run.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    assert not run.lanes([long])
    thread.join()
    assert run.failure is None
    assert [outcome.interrupted for outcome in run.outcomes] == [True]


def alive(pid: int) -> bool:
    """Return True if the process runs. A zombie does not run."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
