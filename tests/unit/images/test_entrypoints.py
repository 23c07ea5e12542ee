"""Process 1 of a container handles the signal to end, even while Python still starts.

Linux ignores a signal to process 1 for which it has no handler. A Python that is still importing would run
until the pod's grace period is over, which is 10 minutes for a gateway.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.paths import REPOSITORY

UNSHARE = "/usr/bin/unshare"
"""Program of util-linux that runs a command as process 1 of a separate process tree."""
SECONDS = 60.0
"""Timeout of the test in seconds. A process that ignores the signal would run for twice as long."""


def entrypoint(image: str) -> list[str]:
    lines = (REPOSITORY / "images" / image / "Dockerfile").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("ENTRYPOINT ")]
    words: list[str] = json.loads(line.removeprefix("ENTRYPOINT "))
    return words


@pytest.mark.parametrize("image", ["operator", "gateway"])
def test_process_1_ends_on_sigterm_while_python_starts(image: str, tmp_path: Path) -> None:
    # A program that never handles signals replaces Python.
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho > {tmp_path}/started\nexec sleep {2 * SECONDS:.0f}\n")
    python.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.Popen(  # noqa: S603 -- our own Dockerfile's words
        [UNSHARE, "--fork", "--pid", "--kill-child", *entrypoint(image)], env={"PATH": path}
    )
    try:
        deadline = time.monotonic() + SECONDS
        while not (tmp_path / "started").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (process_1,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(process_1), signal.SIGTERM)
        assert process.wait(SECONDS) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
