"""Processes whose imports are complete before they are needed.

A server process imports the modules while its parent does something else; new processes are forked from it
within milliseconds. It is multiprocessing's fork server, and a forked process
- has the parent's environment at the time of its start, like a spawned process,
- ends when the parent has ended for any reason,
- is spawned as a new process if the server cannot fork it.
"""

import ctypes
import gc
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, forkserver, popen_forkserver, popen_spawn_posix, process
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

log = logging.getLogger("ray.serve")

END_SECONDS = 5.0
"""Seconds for the orderly end of a process after its parent has ended."""
_READ_ONCE = ("GOMP_", "KMP_", "LD_PRELOAD", "MKL_", "OMP_")
"""Prefixes of variables that libraries read when they are loaded: only a new process adopts a change."""
_CUDA = "libcuda.so.1"
_CUDA_NOT_INITIALIZED = 3
"""Response of CUDA's driver in a process that has not used it yet."""

_server: Any = forkserver._forkserver
_started_with: dict[str, str] = {}
"""Variables of `_READ_ONCE` at the start of the server."""


def start(module: str, variables: Mapping[str, str] | None = None) -> None:
    """Start the server without waiting for it.

    Args:
        module: Module that it imports, preferably by `import_all`.
        variables: Additional variables for the server only.
    """
    with _environment(variables or {}):
        _started_with.clear()
        _started_with.update(_read_once(os.environ))
        forkserver.set_forkserver_preload(["__main__", module])
        forkserver.ensure_running()


def stop() -> None:
    """End the server, if there is one: nothing will be forked from it."""
    if _server._forkserver_pid is not None:
        os.kill(_server._forkserver_pid, signal.SIGKILL)
        _server._stop()


def import_all(modules: Sequence[str]) -> None:
    """Import modules in the server. Ends it if no process may be forked from it afterwards."""
    _started_with.update(_read_once(os.environ))
    _entitle()
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - every error is reported
            # A process that needs the module fails by itself, with the reason.
            _write(f"{module} cannot be imported ahead: {error!r}")
    if _uses_cuda():
        # A process forked from one that uses CUDA could not use it.
        _write("nothing can be started from here: the imports have begun to use CUDA")
        os._exit(1)
    # Memory shared with future processes stays shared: a collection would write to every object.
    gc.collect()
    gc.freeze()


class Context(ForkServerContext):
    """Context of multiprocessing whose processes come from the server."""

    def Process(  # type: ignore[override]  # noqa: N802 - the name in multiprocessing
        self,
        *,
        target: Callable[..., object],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        daemon: bool | None = None,
    ) -> ForkServerProcess:
        """Return a process that can be started."""
        call = _Call(target, tuple(args), dict(kwargs or {}))
        return _Process(target=call, name=name, daemon=daemon)


class _Process(ForkServerProcess):
    @staticmethod
    def _Popen(process_object: Any) -> Any:  # noqa: N802 - the name in multiprocessing
        changed = dict(_read_once(os.environ).items() - _started_with.items())
        reason = f"{', '.join(sorted(changed))} changed" if changed else ""
        if not reason and not _alive():
            reason = "the server has ended"
        if not reason:
            try:
                return popen_forkserver.Popen(process_object)
            except (EOFError, OSError) as error:
                reason = f"the server does not answer: {error!r}"
        log.warning("%s is started without its imports: %s.", process_object.name, reason)
        return popen_spawn_posix.Popen(process_object)


class _Call:
    """Work of a process, pickled separately: it is read only when the environment is correct."""

    def __init__(
        self, target: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self._work = (target, args, kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {"environment": dict(os.environ), "work": bytes(ForkingPickler.dumps(self._work))}

    def __call__(self) -> None:
        state = vars(self)
        _become(state["environment"])
        _use_the_same_server()
        _end_with_parent()
        target, args, kwargs = ForkingPickler.loads(state["work"])
        target(*args, **kwargs)


def _become(environment: Mapping[str, str]) -> None:
    """Set exactly this environment, without touching variables that are already correct."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _alive() -> bool:
    """Return True if the server is alive. A dead one would be restarted, to end in the same way."""
    pid = _server._forkserver_pid
    if pid is None:
        # A process that was forked from it knows only its address.
        return _server._forkserver_address is not None
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _entitle() -> None:
    """Give the server a title. Its children could not set theirs if it had not."""
    with suppress(ImportError):
        from setproctitle import setproctitle  # type: ignore[import-not-found]  # only in the Ray images

        setproctitle("daybreak::standby")


def _uses_cuda() -> bool:
    try:
        driver = ctypes.CDLL(_CUDA)
    except OSError:
        return False
    # The query does not begin to use CUDA.
    return int(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))) != _CUDA_NOT_INITIALIZED


def _use_the_same_server() -> None:
    """Share the server: Python 3.11 would start another one for the children of this process."""
    if _server._forkserver_pid is None and _server._forkserver_address is not None:
        _server.ensure_running = lambda: None


def _end_with_parent() -> None:
    parent = process.parent_process()
    if parent is not None:
        threading.Thread(target=_outlive, args=(parent.sentinel,), name="parent", daemon=True).start()


def _outlive(sentinel: int) -> None:
    connection.wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(END_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _write(text: str) -> None:
    """Write to the replica's log; the server has no logging."""
    print(f"daybreak standby: {text}.", file=sys.stderr, flush=True)


def _read_once(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_ONCE)}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
