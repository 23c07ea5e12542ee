"""Engines as processes: start, wait, cause of a failure, and end with all child processes."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from daybreak_runtime.benchmark import engines
from daybreak_runtime.benchmark.engines import EngineFailed, end, started
from daybreak_runtime.benchmark.order import Engine

SERVER = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({pid!r}, "w").write(str(child.pid))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""
FAILING = """
import sys
print("INFO loading")
print("(EngineCore pid=7) ERROR 01-01 00:00:00 [core.py:1] torch.OutOfMemoryError: CUDA out of memory")
print("RuntimeError: Engine core initialization failed. See root cause above.")
sys.exit(1)
"""


@pytest.fixture
def engine() -> Engine:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return Engine("m", "m", port=free.getsockname()[1], start_seconds=20)


def plays(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(engines, "command", lambda *_: [sys.executable, "-c", program])


def test_engine_ends_with_its_child_process(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    plays(monkeypatch, SERVER.format(pid=str(pid), port=engine.port))
    with started(engine, {}) as target:
        assert target.url == f"http://127.0.0.1:{engine.port}/v1"
        assert target.metrics == f"http://127.0.0.1:{engine.port}/metrics"
        child = psutil.Process(int(pid.read_text()))
        assert child.is_running()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_engine_start_failure_reports_the_engines_error(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays(monkeypatch, FAILING)
    with pytest.raises(EngineFailed, match="CUDA out of memory"), started(engine, {}):
        pass


def test_engine_start_fails_if_port_is_taken(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plays(monkeypatch, SERVER.format(pid=str(tmp_path / "pid"), port=engine.port))
    with started(engine, {}), pytest.raises(EngineFailed, match="is taken"), started(engine, {}):
        pass


def test_engine_that_does_not_answer_in_time_is_ended(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays(monkeypatch, "import time; time.sleep(600)")
    slow = Engine("m", "m", port=engine.port, start_seconds=0.5)
    children = set(psutil.Process().children())
    with pytest.raises(EngineFailed, match="did not answer within"), started(slow, {}):
        pass
    assert set(psutil.Process().children()) <= children, "the engine's process has ended"


def test_engine_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_END_SECONDS", 0.5)
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1); time.sleep(600)"
    process = subprocess.Popen(  # noqa: S603 -- our own program
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    began = time.monotonic()
    end(process)
    assert process.returncode == -9
    assert time.monotonic() - began < 5
    process.stdout.close()
