"""The operator as a separate process, as it runs in a pod."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.compiled_once import COMPILED_ONCE
from tests.fork_server import Forked, fork
from tests.gateway.ports import free_ports

PLAYED_OPERATOR = "tests.api.playing.operator"
SOURCES = Path(__file__).resolve().parents[2] / "operator" / "src"


class OperatorProcess:
    """`python -m daybreak` against a control plane.

    Args:
        kubeconfig: Whom it runs as, and where.
        log: File that takes its log.
        pod: Its name as a candidate for the lease.
        settings: More DAYBREAK_… variables, without the prefix.
        program: Module that is run instead, which starts the same operator with something exchanged.
    """

    def __init__(
        self, kubeconfig: Path, log: Path, pod: str = "operator", program: str = "daybreak", **settings: str
    ) -> None:
        self.port = free_ports(1)
        self._program = program
        self._log = log
        self._environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("DAYBREAK_", "KUBE"))
            },
            **COMPILED_ONCE,
            "KUBECONFIG": str(kubeconfig),
            "POD_NAME": pod,
            "PYTHONPATH": os.pathsep.join(
                [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(SOURCES), str(SOURCES.parents[1])]
            ),
            "DAYBREAK_HTTP_PORT": str(self.port),
            "DAYBREAK_OPERATOR_NAMESPACE": "default",
            **{f"DAYBREAK_{name}": value for name, value in settings.items()},
        }
        self._process: subprocess.Popen[bytes] | Forked | None = None

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Return True if the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; the played one by fork, for it is started by the dozen."""
        if self._program == PLAYED_OPERATOR:
            self._process = fork(self._program, self._environment, self._log)
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- our own program
                [sys.executable, "-m", self._program], env=self._environment, stdout=log, stderr=log
            )

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Wait until it reconciles."""
        until = time.monotonic() + seconds
        while self.page("/readyz") != "ok":
            assert self.running, f"the operator has ended: {self.log()[-2000:]}"
            assert time.monotonic() < until, f"the operator is not ready: {self.log()[-2000:]}"
            time.sleep(0.1)

    def stop(self) -> int:
        """Ask it to end, as the kubelet does, and wait. Returns its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """End it without a chance to do anything more."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def wait(self, seconds: float) -> int:
        """Wait until it ends by itself. Returns its exit status."""
        assert self._process is not None
        return self._process.wait(seconds)

    def page(self, path: str) -> str:
        """Return a page of the HTTP port; empty while it does not listen."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""

    @property
    def looked_at(self) -> float:
        """Return the number of reconciles so far."""
        assert self.page("/metrics"), "it is too busy to say so"
        return self.metric("daybreak_reconciles_total")

    def at_rest(self) -> float:
        """Return the number of reconciles, once it stays constant.

        A look counts itself after it has written the status.
        """
        last = -1.0
        until = time.monotonic() + 60
        while (now := self.looked_at) != last:
            assert time.monotonic() < until, "it does not come to rest"
            last = now
            time.sleep(3)
        return now

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's series that bear these labels."""
        total = 0.0
        for line in self.page(f"/metrics?name[]={name}").splitlines():
            series, _, value = line.rpartition(" ")
            if series.split("{")[0] == name and all(
                f'{key}="{desired}"' in series for key, desired in labels.items()
            ):
                total += float(value)
        return total

    def log(self) -> str:
        """Return the log of the process."""
        return self._log.read_text(errors="replace")

    @property
    def errors(self) -> list[str]:
        """Return lines of the log that report an error.

        Lines in which the client announces a retry are left out: after it has received a kind, an API server
        is not ready at once to serve watches of it.
        """
        lines = [line for line in self.log().splitlines() if '"level": "error"' in line]
        return [line for line in lines if "storage is (re)initializing" not in line]

    def memory(self, field: str = "VmRSS") -> int:
        """Return the resident memory in bytes; `VmHWM` is the maximum so far."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        raise LookupError(field)

    def cpu_seconds(self) -> float:
        """Return the processor time used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def played_operator(
    kubeconfig: Path, folder: Path, answers: Path, **settings: str
) -> Iterator[OperatorProcess]:
    """Yield an operator for all namespaces whose models answer as the files in `answers` define.

    Fails at the end when it has ended by itself, or logged an error.
    """
    log = folder / "log"
    settings = {"PLAYED_ANSWERS": str(answers), **settings}
    with OperatorProcess(kubeconfig, log, program=PLAYED_OPERATOR, **settings) as process:
        yield process
        assert process.running, f"the operator has ended: {process.log()[-3000:]}"
    assert not process.errors, process.errors
