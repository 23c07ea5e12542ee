"""A replica with a dead engine ends its own process.

A remaining replica would answer each request immediately with an error, and would attract most requests.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PROCESS = Path(__file__).with_name("replica_process.py")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime/src'}",
    "DAYBREAK_HTTP_PORT": "0",
}
BEGUN = {"request": "begun", "status": 500, "final": []}
WAITING = {"request": "waiting", "status": 425, "final": ["503"]}


def ended(fault: str) -> tuple[int, list[dict[str, Any]]]:
    """How a replica's process ends whose engine is killed, and what it has said from then on."""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, str(PROCESS), fault], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as replica:
        assert replica.stdout is not None
        engine = 0
        try:
            before = json.loads(replica.stdout.readline())
            engine = before["engine"]
            assert before["health"] == 200
            assert replica.poll() is None
            os.kill(engine, signal.SIGKILL)
            report, _ = replica.communicate(timeout=30)
        finally:
            replica.kill()
            if engine and Path(f"/proc/{engine}").exists():
                os.kill(engine, signal.SIGKILL)
    return replica.returncode, [json.loads(line) for line in report.splitlines()]


def test_replica_with_dead_engine_exits_after_requests_are_answered() -> None:
    """Started requests get the engine's error; waiting ones return unprocessed, for another replica."""
    code, message = ended("none")
    assert code == 1
    assert message[-1] == {"shutdown": "none"}
    assert sorted(message[:-1], key=str) == sorted([BEGUN, WAITING], key=str)


@pytest.mark.parametrize("fault", ["answer", "shutdown", "hung"])
def test_replica_with_dead_engine_exits_despite_fault_during_shutdown(fault: str) -> None:
    code, message = ended(fault)
    assert code == 1
    assert WAITING in message or fault == "answer"
    assert (BEGUN in message) == (fault != "answer")
    assert message[-1] == {"shutdown": fault}
