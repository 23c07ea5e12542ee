"""Engines, started and ended in turn: `vllm serve` with the arguments of a step."""

import contextlib
import importlib.metadata
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from daybreak_runtime.benchmark.load.measure import Target
from daybreak_runtime.benchmark.order import Engine
from daybreak_runtime.benchmark.outcome import Settings
from daybreak_runtime.start.cause import cause
from daybreak_runtime.start.redact import redacted

HOST = "127.0.0.1"
_END_SECONDS = 30.0
_LOOK_SECONDS = 0.25
_TAIL_BYTES = 256 * 1024
log = logging.getLogger("daybreak.benchmark")


class EngineFailed(Exception):
    """The engine did not start; the message has the engine's own error."""


def fetch(engine: Engine) -> None:
    """Copy the weights from their bucket, with the function that replicas use. Raises EngineFailed."""
    if engine.bucket is None:
        return
    from ray.llm._internal.common.utils.cloud_utils import CloudFileSystem

    try:
        CloudFileSystem.download_files(path=engine.source, bucket_uri=engine.bucket)
    except Exception as error:
        raise EngineFailed(redacted(f"the weights cannot be copied: {error}", os.environ)) from error


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """Return engine arguments as flags of vLLM's command line."""
    found: list[str] = []
    for name, value in arguments.items():
        flag = f"--{name.replace('_', '-')}"
        match value:
            case None:
                continue
            case bool():
                found.append(flag if value else f"--no-{flag[2:]}")
            case list() | tuple():
                found += [flag, *map(str, value)]
            case dict():
                found += [flag, json.dumps(value)]
            case _:
                found += [flag, str(value)]
    return found


def command(engine: Engine, settings: Settings) -> list[str]:
    """Return the command that starts the engine."""
    try:
        importlib.metadata.version("vllm")
        program = ["vllm.entrypoints.cli.main", "serve", engine.source]
    except importlib.metadata.PackageNotFoundError:
        # vLLM's CPU build has a distribution of another name, which `vllm serve` does not find.
        program = ["vllm.entrypoints.openai.api_server", "--model", engine.source]
    place = ["--served-model-name", engine.model, "--host", HOST, "--port", str(engine.port)]
    return [sys.executable, "-m", *program, *place, *flags({**engine.args, **settings})]


@contextlib.contextmanager
def started(engine: Engine, settings: Settings) -> Iterator[Target]:
    """Yield a ready engine until the block ends. Raises EngineFailed."""
    if _healthy(engine.port):
        # It would be measured instead of the engine, which cannot use the port.
        raise EngineFailed(f"port {engine.port} is taken by something that answers already")
    with tempfile.NamedTemporaryFile(prefix="daybreak-engine-", suffix=".log") as written:
        file = Path(written.name)
        process = subprocess.Popen(  # noqa: S603 -- the engine
            command(engine, settings),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait(engine, process, file)
            base = f"http://{HOST}:{engine.port}"
            yield Target(f"{base}/v1", engine.model, metrics=f"{base}/metrics")
        finally:
            end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End an engine with all its processes: the next one needs their memory."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        family = [parent, *parent.children(recursive=True)]
    _signal(process.pid, signal.SIGTERM)
    left = _until_gone(process, family)
    if left:
        _signal(process.pid, signal.SIGKILL)
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        _until_gone(process, left)
    process.wait(_END_SECONDS)


def _until_gone(process: "subprocess.Popen[bytes]", family: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Wait for processes to end, and return those that have not.

    In a pod this program is process 1, which inherits orphaned processes. It must reap them: until then they
    are zombies, and psutil would wait for them.
    """
    last, left = time.monotonic() + _END_SECONDS, list(family)
    while left and time.monotonic() < last:
        process.poll()
        left = [each for each in left if not _gone(each, process.pid)]
        if left:
            time.sleep(_LOOK_SECONDS)
    return left


def _gone(each: psutil.Process, engine: int) -> bool:
    try:
        if each.status() != psutil.STATUS_ZOMBIE:
            return False
    except psutil.NoSuchProcess:
        return True
    if each.pid != engine:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(each.pid, os.WNOHANG)
    return True


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _wait(engine: Engine, process: "subprocess.Popen[bytes]", file: Path) -> None:
    last = time.monotonic() + engine.start_seconds
    while not _healthy(engine.port):
        status = process.poll()
        if status is not None:
            message = _tail(file)
            log.error("the engine ended with %d:\n%s", status, redacted(message[-8000:], os.environ))
            raise EngineFailed(cause(message, os.environ) or f"the engine ended with {status}")
        if time.monotonic() > last:
            raise EngineFailed(f"the engine did not answer within {engine.start_seconds:.0f} s")
        time.sleep(_LOOK_SECONDS)


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _tail(file: Path) -> str:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _TAIL_BYTES))
        return opened.read().decode(errors="replace")
