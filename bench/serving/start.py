"""Ray Serve with custom applications on this machine, for measurements and tests."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.ray import environment as ray_environment
from cluster import paths

SAMPLES = paths.REPOSITORY / "manifests" / "samples" / "applications"
_END_SECONDS = 30


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def serving(applications: Mapping[str, Any], port: int, *more: Path) -> Iterator[str]:
    """Yield HOST:PORT of Serve's proxy, with each application below its name.

    Args:
        applications: `{"NAME": {"importPath": "module.attribute", "args": {...}}}`.
        port: Port of the proxy.
        more: Folders with modules, in addition to the samples.

    Raises:
        RuntimeError: An application did not start; the message has the end of the output.
    """
    # The folder's path is short, because Ray creates its sockets in it.
    folder = Path(tempfile.mkdtemp(prefix="db-", dir="/tmp"))
    sources = [ray_environment.RUNTIME, SAMPLES, paths.REPOSITORY, *more]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray starts a process for each CPU in advance, which is too much for a small machine.
        "RAY_prestart_worker_first_driver": "0",
        "RAY_raylet_start_wait_time_s": "120",
    }
    python, reported = ray_environment.python(), json.dumps(applications)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603 -- our own program
            [str(python), "-m", "bench.serving.host", str(port), str(folder / "r"), reported],
            cwd=paths.REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        _ready(process, folder / "log")
        yield f"127.0.0.1:{port}"
    finally:
        _end(process)
        shutil.rmtree(folder, ignore_errors=True)


def _ready(process: "subprocess.Popen[str]", log: Path) -> None:
    """Wait until the process reports that it is ready; Ray prints other lines before."""
    report: list[str] = []
    while process.stdout and (line := process.stdout.readline()):
        if line == "READY\n":
            return
        report.append(line)
    raise RuntimeError("".join([*report, log.read_text()])[-4000:])


def _end(process: "subprocess.Popen[str]") -> None:
    """End the process; Ray ends its own processes, and the rest of the session is killed."""
    if process.stdin:
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()
