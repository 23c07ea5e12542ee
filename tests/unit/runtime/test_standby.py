"""Standby processes with completed imports."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PARENT = Path(__file__).with_name("standby_parent.py")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("MARK", "OMP_NUM_THREADS")},
    "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime/src'}",
}


def started(what: str) -> tuple[dict[str, Any], str]:
    """Return the state in the started process, and its error output."""
    command = [sys.executable, str(PARENT), what]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    observed: dict[str, Any] = json.loads(done.stdout)
    return observed, done.stderr


def test_process_has_imports_of_server_and_environment_of_start() -> None:
    observed, message = started("plain")
    assert observed["ahead"]
    assert observed["marked"] == "set later"
    assert "no.such.module cannot be imported ahead" in message


def test_child_of_started_process_uses_same_server() -> None:
    observed, _ = started("deeper")
    assert observed["below"]["ahead"]
    assert observed["below"]["server"] == observed["server"]


@pytest.mark.parametrize("why", ["stopped", "threads"])
def test_process_is_spawned_without_imports_if_server_is_unusable(why: str) -> None:
    observed, message = started(why)
    assert not observed["ahead"]
    assert observed["marked"] == "set later"
    assert "look is started without its imports" in message


def test_a_process_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen(  # noqa: S603
        [sys.executable, str(PARENT), "orphan"], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    assert gone(child)


def gone(pid: int) -> bool:
    """Return True if the process ends within 20 s."""
    last = time.monotonic() + 20
    while time.monotonic() < last:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.1)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return False
