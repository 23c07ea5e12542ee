"""Cause of a failed engine start, from the output of its process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daybreak_runtime.start.cause import cause
from daybreak_runtime.start.redact import redacted

PREFIX = "\x1b[0;36m(EngineCore pid=4711)\x1b[0;0m "
LOG = f"""\
INFO 11-22 18:31:25 [core.py:12] Initializing a V1 LLM engine
{PREFIX}ERROR 11-22 18:32:01 [core.py:1366] EngineCore failed to start.
{PREFIX}ERROR 11-22 18:32:01 [core.py:1366] Traceback (most recent call last):
{PREFIX}ERROR 11-22 18:32:01 [core.py:1366]   File "/opt/vllm/v1/engine/core.py", line 1357, in run
{PREFIX}ERROR 11-22 18:32:01 [core.py:1366]     engine_core = EngineCoreProc(*args, **kwargs)
{PREFIX}ERROR 11-22 18:32:01 [core.py:1366]                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{PREFIX}ERROR 11-22 18:32:01 [core.py:1366] ValueError: To serve at least one request 0.5 GiB are needed.
{PREFIX}ERROR 11-22 18:32:01 [core.py:1366] Try increasing `gpu_memory_utilization`.
{PREFIX}Process EngineCore:
{PREFIX}Traceback (most recent call last):
{PREFIX}  File "/usr/lib/python3.11/multiprocessing/process.py", line 314, in _bootstrap
{PREFIX}    self.run()
{PREFIX}ValueError: To serve at least one request 0.5 GiB are needed.
{PREFIX}Try increasing `gpu_memory_utilization`.
"""


def test_cause_is_exception_message_of_engine() -> None:
    assert cause(LOG, {}) == (
        "ValueError: To serve at least one request 0.5 GiB are needed.\n"
        "Try increasing `gpu_memory_utilization`."
    )


def test_next_log_record_is_not_part_of_cause() -> None:
    more = f"{PREFIX}ERROR 11-22 18:32:09 [multiproc_executor.py:314] Worker proc died unexpectedly"
    log = LOG.partition(f"{PREFIX}Process EngineCore:")[0] + more
    assert cause(log, {}).endswith("Try increasing `gpu_memory_utilization`.")


def test_exception_that_refers_to_root_cause_above_is_skipped() -> None:
    log = (
        "RuntimeError: nvcc failed\nninja: build stopped\n\nRuntimeError: Engine core initialization failed."
    )
    assert cause(log + " See root cause above.", {}) == "RuntimeError: nvcc failed\nninja: build stopped"


@pytest.mark.parametrize("log", ["", "INFO 11-22 18:31:25 [core.py:12] well", "no Error in sight"])
def test_log_without_exception_has_no_cause(log: str) -> None:
    assert cause(log, {}) == ""


def test_exception_of_ray_worker_is_found() -> None:
    log = "(RayWorkerWrapper pid=3, ip=10.0.0.1) torch.OutOfMemoryError: CUDA out of memory."
    assert cause(log, {}) == "torch.OutOfMemoryError: CUDA out of memory."


def test_secrets_of_environment_are_redacted() -> None:
    environment = {"HF_TOKEN": "s3cretvalue", "AWS_SECRET_ACCESS_KEY": "abcdefgh", "HOME": "/home/ray"}
    log = "OSError: 401 for s3cretvalue and abcdefgh in /home/ray at https://me:pw@hub/x?token=abc"
    assert cause(log, environment) == (
        "OSError: 401 for *** and *** in /home/ray at https://***@hub/x?token=***"
    )


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("hf_abcdefghij", "hf_***"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("AKIAABCDEFGHIJKLMN", "AKIA***"),
        ("s3://b/p?X-Amz-Signature=0a1b&X=1", "s3://b/p?X-Amz-Signature=***&X=1"),
        ("nothing secret: token count 5", "nothing secret: token count 5"),
    ],
)
def test_text_that_looks_like_secret_is_redacted(text: str, reported: str) -> None:
    assert redacted(text, {}) == reported


_FAILS = """
import os, sys
from daybreak_runtime.start.cause import raise_cause
print("ValueError: from the start before", file=sys.stderr, flush=True)
try:
    with raise_cause():
        os.system(f"echo 'OSError: no such weights' >&{sys.argv[2]}")
        raise RuntimeError(sys.argv[1])
except RuntimeError as error:
    open(sys.argv[3], "w").write(f"{type(error).__name__}|{error}")
"""


def _failed(tmp_path: Path, message: str, written_to: int = 2, *, logged: bool = True) -> str:
    """Return the cause that a process reports after its child has written it; its own error is generic."""
    root = Path(__file__).parents[3] / "runtime" / "src"
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        subprocess.run(  # noqa: S603 - the interpreter that runs the tests
            [sys.executable, "-c", _FAILS, message, str(written_to), str(tmp_path / "said")],
            env={**os.environ, "PYTHONPATH": str(root)},
            stdout=out if logged else subprocess.PIPE,
            stderr=err if logged else subprocess.PIPE,
            check=True,
        )
    return (tmp_path / "said").read_text()


@pytest.mark.parametrize("written_to", [1, 2])
def test_exception_that_refers_to_log_is_replaced_with_cause(tmp_path: Path, written_to: int) -> None:
    message = _failed(tmp_path, "Engine core initialization failed. See root cause above.", written_to)
    assert message == "EngineStartError|OSError: no such weights"


def test_exception_with_specific_message_is_unchanged(tmp_path: Path) -> None:
    assert _failed(tmp_path, "the port is taken") == "RuntimeError|the port is taken"


def test_exception_is_unchanged_without_log_file(tmp_path: Path) -> None:
    message = "Engine core initialization failed. See root cause above."
    assert _failed(tmp_path, message, logged=False) == f"RuntimeError|{message}"
