"""Processes of benchmarks: killed with all their children, and measured in memory."""

import sys
from pathlib import Path

import psutil
import pytest

from bench.gpu.processes import Failed, Process, environment, until

PROGRAM = """
import subprocess, sys, time
block = bytearray(64 * 2**20)
del block
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print("ready", flush=True)
time.sleep(60)
"""


def test_kill_ends_all_descendants_and_peak_memory_is_recorded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = Process("parent", [sys.executable, "-c", PROGRAM], environment(), log)
    try:
        until("ready", lambda: "ready" in log.read_text() or None, 30, process, pause=0.05)
        family = process.family()
        assert len(family) == 2
        assert process.peak_mib > 64
        process.kill()
        assert psutil.wait_procs(family, timeout=5)[1] == []
        with pytest.raises(Failed, match="parent ended"):
            process.check()
    finally:
        process.end()
