"""Process 1 of a container hears that it shall end, even while Python still starts.

Linux ignores a signal to process 1 for which it has no handler: a Python that is still importing would go on
until the pod's grace period is over, ten minutes for a gateway.
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
"""Of util-linux: it gives the program a process tree of its own, in which it is process 1."""
SECONDS = 60.0
"""How long the test is patient; a process that does not hear would stay for twice as long."""


def entrypoint(image: str) -> list[str]:
    lines = (REPOSITORY / "images" / image / "Dockerfile").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("ENTRYPOINT ")]
    words: list[str] = json.loads(line.removeprefix("ENTRYPOINT "))
    return words


@pytest.mark.parametrize("image", ["operator", "gateway"])
def test_process_1_ends_while_python_starts(image: str, tmp_path: Path) -> None:
    # In Python's place, a program that never gets as far as handling signals.
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
