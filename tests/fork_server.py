"""Start by fork a program that tests start by the dozen: most of a start is spent on imports.

A server imports a module once, and makes each process of it by fork, before anything has run there. From then
on it is a process like any other, with a separate environment, log, signals and end.
A hash seed belongs to the server, so there are two servers, which take turns: what depends on an order that
differs between two starts still differs.
"""

import asyncio
import importlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SERVERS = 2
_turns = itertools.count()
_servers: dict[tuple[str, int], "_Server"] = {}


class Forked:
    """A process that a server has forked, with the interface of `subprocess.Popen`."""

    def __init__(self, server: "_Server", environment: Mapping[str, str], log: Path) -> None:
        self._server = server
        self.pid: int = server.ask(start={"environment": dict(environment), "log": str(log)})
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None if the process runs."""
        if self._status is None:
            self._status = self._server.ask(poll=self.pid)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, once the process has ended; raises `subprocess.TimeoutExpired`."""
        until = time.monotonic() + timeout if timeout is not None else None
        while (status := self.poll()) is None:
            if until is not None and timeout is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(0.01)
        return status

    def send_signal(self, number: int) -> None:
        """Signal the process if it runs: its number is not reused until its status is read."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class _Server:
    """One server of a module; it ends with the process that has started it."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 -- our own program
                [sys.executable, "-m", __name__, module, str(theirs.fileno())],
                env={**environment},
                pass_fds=[theirs.fileno()],
                stdout=subprocess.DEVNULL,
            )
        self._channel = ours.makefile("rw")
        ours.close()

    def ask(self, **order: Any) -> Any:
        """Return the server's answer to an order."""
        with self._lock:
            self._channel.write(json.dumps(order) + "\n")
            self._channel.flush()
            answer = self._channel.readline()
        assert answer, f"the server has ended: {self._process.poll()}"
        return json.loads(answer)


def fork(module: str, environment: Mapping[str, str], log: Path) -> Forked:
    """Run `main()` of a module, a coroutine whose result says whether the end is a good one.

    Args:
        module: What is imported once, in the environment of the first process that a server makes.
        environment: Of the new process, whole.
        log: File to which it appends what it prints.
    """
    key = module, next(_turns) % SERVERS
    if key not in _servers:
        _servers[key] = _Server(module, environment)
    return Forked(_servers[key], environment, log)


def _serve(module: str, channel: int) -> None:
    """Carry out orders until whoever gives them has ended; in each new process, run the program."""
    program = importlib.import_module(module)
    assert threading.active_count() == 1, "a fork takes one thread along, whatever the others hold"
    with socket.socket(fileno=channel) as joined, joined.makefile("rw") as orders:
        for line in orders:
            order = json.loads(line)
            if "poll" in order:
                ended, status = os.waitpid(order["poll"], os.WNOHANG)
                answer = os.waitstatus_to_exitcode(status) if ended else None
            elif not (answer := os.fork()):
                break
            orders.write(json.dumps(answer) + "\n")
            orders.flush()
        else:
            return
    _become(**order["start"])
    sys.exit(0 if asyncio.run(program.main()) else 1)


def _become(environment: Mapping[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
