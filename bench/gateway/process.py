"""Gateway in separate processes, with the guards and the number of services that it has in a cluster."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from bench.gateway.account import service_account
from daybreak.api.common import names
from tests.api.operator_process import SOURCES

_POD = """
"$1" -m daybreak.gateway haproxy & haproxy=$!
"$1" -m daybreak.gateway agent & agent=$!
trap 'kill $haproxy $agent; wait $haproxy; wait $agent; exit' TERM
wait
"""
"""Shell script that runs both programs of a pod, and ends them together."""


@contextmanager
def process(
    command: list[str], environment: Mapping[str, str], log: Path, seconds: float = 0
) -> Iterator[psutil.Process]:
    """Run a program until the block ends, then give it a number of seconds to end by itself."""
    with log.open("ab") as output:
        started = subprocess.Popen(  # noqa: S603 -- this package's own commands
            command, env=dict(environment), stdout=output, stderr=output
        )
    try:
        yield psutil.Process(started.pid)
    finally:
        if seconds:
            started.terminate()
            with suppress(subprocess.TimeoutExpired):
                started.wait(seconds)
        started.kill()
        started.wait()


def parts(gateway: psutil.Process) -> dict[str, list[psutil.Process]]:
    """Return the Python processes (supervisor, keeper and agent) and the three HAProxies of the gateway."""
    children = gateway.children(recursive=True)
    haproxies = [child for child in children if child.name() == "haproxy"]
    return {"agent": [child for child in children if child not in haproxies], "haproxy": haproxies}


def _without(folder: Path) -> Path:
    """Return a folder that hides packages which the gateway's image lacks.

    If rich is installed, `structlog` loads it, which takes 7 MiB.
    """
    found = folder / "as-in-the-image"
    found.mkdir(exist_ok=True)
    (found / "rich.py").write_text("raise ImportError('the image has none')\n")
    return found


@contextmanager
def gateway(kubeconfig: Path, namespace: str, folder: Path, **more: str) -> Iterator[psutil.Process]:
    """Run the gateway on the ports that it has in a cluster, and yield the parent of its two programs.

    `more` overrides variables of its environment.
    """
    first, last = names.GATEWAY_PORTS
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("KUBE")},
        **service_account(kubeconfig, namespace, folder),
        "PYTHONPATH": f"{SOURCES}{os.pathsep}{_without(folder)}",
        "POD_NAMESPACE": namespace,
        "GATEWAY_HTTP_PORT": str(names.GATEWAY_HTTP_PORT),
        "GATEWAY_FIRST_PORT": str(first),
        "GATEWAY_SLOTS": str(last - first + 1),
        "GATEWAY_ADDRESS": "127.0.0.1",
        "GATEWAY_FOLDER": str(folder / "gateway"),
        "GATEWAY_LEAVE_SECONDS": "0",
        "GATEWAY_DRAIN_SECONDS": "1",
        **more,
    }
    command = ["sh", "-c", _POD, "sh", sys.executable]
    with process(command, environment, folder / "gateway.log", seconds=30) as pod:
        yield pod
