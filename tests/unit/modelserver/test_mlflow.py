"""Start script of MLflow: the container's stop signal reaches MLflow's HTTP server."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from tests.unit.modelserver.test_objects import container
from tests.unit.waiting import until

MLFLOW = """#!/bin/sh
echo "mlflow $*" >> "$LOG"
server
echo "mlflow ends" >> "$LOG"
"""
"""Stub that runs its HTTP server as a child, like MLflow, and ends after it."""
SERVER = """#!/bin/sh
trap 'echo "server finishes its requests" >> "$LOG"; sleep 0.2; echo "server ends" >> "$LOG"; exit' TERM
echo "server starts" >> "$LOG"
while :; do sleep 0.05; done
"""
"""Stub of the HTTP server, which takes a moment to finish its requests."""


async def test_stop_signal_lets_mlflow_server_finish_its_requests(tmp_path: Path) -> None:
    for name, text in (("mlflow", MLFLOW), ("server", SERVER)):
        program = tmp_path / name
        program.write_text(text)
        program.chmod(0o755)
    found = container(
        engine="mlflow", image="mlflow:1", model={"name": "words", "source": "mlflow://words/1"}
    )
    log = tmp_path / "log"
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log)}
    words = [*found["command"], *found["args"]]
    shell = await asyncio.create_subprocess_exec(*words, env=env, start_new_session=True)
    try:
        await until(lambda: log.exists() and "server starts" in log.read_text())
        shell.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await shell.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert log.read_text().splitlines() == [
        "mlflow models serve --model-uri models:/words/1 --host 0.0.0.0 --port 5000 --env-manager local",
        "server starts",
        "server finishes its requests",
        "server ends",
        "mlflow ends",
    ]
