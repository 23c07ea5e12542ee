"""Real processes: started, found by another instance, stopped, and never confused with another process."""

import dataclasses
import json
import os
import sys
import time
from pathlib import Path

import pytest

from cluster.errors import ClusterError
from cluster.tools.processes import Processes, Record
from cluster.tools.programs import run

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('deaf', flush=True); time.sleep(600)",
]

FIRST_THREAD_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=[1]).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_other_instance_finds_and_stops_started_process(tmp_path: Path) -> None:
    record = Processes(tmp_path).start("one", SLEEP)
    later = Processes(tmp_path)
    assert later.recorded() == ["one"]
    assert later.get("one") == record
    assert record.resident_bytes >= 4096
    later.stop("one")
    assert later.get("one") is None
    assert later.recorded() == []
    assert not record.alive


def test_a_running_process_is_not_started_twice_unless_it_changes(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    first = processes.start("one", SLEEP)
    try:
        assert processes.start("one", SLEEP) == first
        other = processes.start("one", SLEEP, {"CHANGED": "yes"})
        assert other.pid != first.pid
        assert not first.alive
    finally:
        processes.stop("one")


def test_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    record = processes.start("deaf", STUBBORN)
    deadline = time.monotonic() + 20
    while "deaf" not in processes.log("deaf").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    processes.stop("deaf", grace=0.1)
    assert not record.alive


def test_stopped_process_leaves_no_zombie(tmp_path: Path) -> None:
    """The process can end at any moment of the stop. The program would warn of a zombie at its own exit."""
    processes = Processes(tmp_path)
    for _ in range(30):
        record = processes.start("one", ["/bin/sleep", "600"])
        processes.stop("one")
        assert not Path(f"/proc/{record.pid}").exists()


def test_process_whose_first_thread_ends_early_leaves_no_zombie(tmp_path: Path) -> None:
    """Large programs end this way: the first thread is gone, and the process remains until the others end."""
    processes = Processes(tmp_path)
    record = processes.start("one", [sys.executable, "-c", FIRST_THREAD_ENDS])
    deadline = time.monotonic() + 20
    while record.alive:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    processes.stop("one")
    assert not Path(f"/proc/{record.pid}").exists()


def test_stop_does_not_kill_process_that_reuses_recorded_pid(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    record = processes.start("one", SLEEP)
    stale = dataclasses.replace(record, started=record.started - 1)
    assert not stale.alive
    file = tmp_path / "run" / "stale.json"
    file.write_text(json.dumps({**dataclasses.asdict(stale), "name": "stale"}))
    processes.stop("stale")
    assert not file.exists()
    assert record.alive
    processes.stop("one")


def test_a_record_from_before_the_last_boot_is_not_alive(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    record = processes.start("one", SLEEP)
    assert not dataclasses.replace(record, boot="another").alive
    processes.stop("one")


def test_check_reports_last_output_line_of_ended_process(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    record = processes.start(
        "brief", [sys.executable, "-c", "print('first'); print('no such port'); print()"]
    )
    deadline = time.monotonic() + 20
    while record.alive and processes.get("brief"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with pytest.raises(ClusterError, match=r"^brief ended: no such port \(log: "):
        processes.check("brief")


def test_the_callback_gets_each_new_process(tmp_path: Path) -> None:
    observed: list[int] = []
    processes = Processes(tmp_path, started=observed.append)
    record: Record = processes.start("one", SLEEP)
    assert observed == [record.pid]
    processes.stop("one")


def test_failed_program_is_reported_in_one_line() -> None:
    script = "import sys; print('some', file=sys.stderr); print('the reason', file=sys.stderr); sys.exit(3)"
    with pytest.raises(ClusterError, match=r"failed: the reason$"):
        run([sys.executable, "-c", script])
    with pytest.raises(ClusterError, match=r"failed: exit status 4$"):
        run([sys.executable, "-c", "raise SystemExit(4)"])
    with pytest.raises(ClusterError, match=r"^no-such-program is not installed$"):
        run(["no-such-program"])


def test_a_program_gets_its_input_folder_and_environment(tmp_path: Path) -> None:
    script = "import os, sys; print(sys.stdin.read(), os.getcwd(), os.environ['EXTRA'], 'PATH' in os.environ)"
    shown = run([sys.executable, "-c", script], stdin="in", directory=tmp_path, environment={"EXTRA": "x"})
    assert shown.split() == ["in", os.path.realpath(tmp_path), "x", "True"]
