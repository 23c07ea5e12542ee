"""Work in a second thread: its programs and their children end with the first error."""

import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from cluster.errors import ClusterError
from cluster.tools import programs
from cluster.tools.alongside import alongside
from cluster.tools.programs import run

PATIENCE = 20.0
"""Timeout in seconds for the end of the programs, which would run for 10 minutes."""
CHILD = "import sys, time; open(sys.argv[1], 'w').write('here'); time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}, sys.argv[1]])"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{CHILD}"


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_work_is_done_when_the_block_ends() -> None:
    done = threading.Event()

    def work() -> None:
        time.sleep(0.1)
        done.set()

    with alongside(work):
        assert not done.is_set()
    assert done.is_set()


@pytest.mark.parametrize("script", [CHILD, PARENT, DEAF], ids=["one", "with a child", "deaf"])
def test_error_in_block_ends_running_programs_of_work(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "END_SECONDS", 1.0)
    mark = tmp_path / "mark"
    later: list[str] = []
    futures: list[Future[None]] = []

    def work() -> None:
        try:
            run([sys.executable, "-c", script, str(mark)])
        finally:
            later.append(run([sys.executable, "-c", "print('one more')"]))

    def fail_meanwhile() -> None:
        with alongside(work) as future:
            futures.append(future)
            wait_for(mark)
            raise ValueError("the reason")

    begin = time.monotonic()
    with pytest.raises(ValueError, match="the reason"):
        fail_meanwhile()
    assert time.monotonic() - begin < PATIENCE
    assert isinstance(futures[0].exception(), ClusterError)
    assert later == []


def test_programs_start_again_after_none_running_block() -> None:
    with programs.none_running(), pytest.raises(ClusterError, match="was not started"):
        run(["true"])
    assert run(["echo", "again"]) == "again\n"


def test_sbin_folders_are_added_to_path_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert run(["sh", "-c", "echo $PATH"]).strip() == "/usr/bin:/bin:/usr/sbin:/sbin"
