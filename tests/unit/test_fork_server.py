"""Programs started by fork: each runs in a separate process."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.fork_server import SERVERS, Forked, fork

ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2])}


def start(log: Path, word: str, **more: str) -> Forked:
    """Start the program with a word that it prints."""
    return fork("tests.unit.forked_program", {**ENVIRONMENT, "WORD": word, **more}, log)


@pytest.mark.parametrize(("word", "status"), [("good", 0), ("bad", 1)])
def test_forked_process_has_own_environment_log_and_status(tmp_path: Path, word: str, status: int) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    started = start(log, word)
    assert started.pid != os.getpid()
    assert started.wait(60) == started.poll() == status
    before, *message = log.read_text().splitlines()
    assert before == "before"
    assert {line.split()[0] for line in message} == {word, "to"}
    assert any(line.endswith("True") for line in message), "signal handlers are the defaults"


def test_consecutive_forks_use_different_hash_seeds(tmp_path: Path) -> None:
    hashes = set()
    for number in range(SERVERS):
        assert start(tmp_path / str(number), "word").wait(60) == 0
        hashes.add((tmp_path / str(number)).read_text().split("word ")[1].split()[0])
    assert len(hashes) == SERVERS


def test_forked_process_runs_until_signal_ends_process(tmp_path: Path) -> None:
    long, other = (start(tmp_path / name, "long", SECONDS="600") for name in ("a", "b"))
    with pytest.raises(subprocess.TimeoutExpired):
        long.wait(0.05)
    assert long.poll() is None
    long.kill()
    assert long.wait(60) == -signal.SIGKILL
    assert other.poll() is None, "the others run on"
    other.send_signal(signal.SIGTERM)
    assert other.wait(60) == -signal.SIGTERM
    long.kill()
    assert long.poll() == -signal.SIGKILL, "it has ended before"
