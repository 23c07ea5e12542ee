"""Process with a replica's port and a fake engine, which the test can kill; run by test_replica.py.

    python replica_process.py FAULT

Prints the process id of the engine once one request has begun and another one waits. Then prints a line of
JSON for each answered request, and one for the engine's end. FAULT selects the failure during the replica's
end: `none`, `answer` (the app never answers), `shutdown` (it raises) or `hung` (the shutdown never returns).

Ray and uvicorn are only in the Ray images. Their fakes implement only the members that are used here.
"""

import asyncio
import json
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import daybreak_runtime
from tests.unit.runtime.asgi_calls import Client

DEPLOYMENT = types.SimpleNamespace(
    max_ongoing_requests=1, max_queued_requests=-1, graceful_shutdown_timeout_s=60
)
SHORTENED = {"answer": "_LAST_ANSWERS_SECONDS", "hung": "_ENGINE_END_SECONDS"}
"""Timeouts that the replica reaches, by fault; shortened, since the process would end seconds later."""


async def until(holds: Callable[[], bool]) -> None:
    """Poll until a condition without notification is true."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


class Server:
    """Fake of uvicorn's Server: it ends on request, after the requests in progress."""

    def __init__(self, config: Any) -> None:
        self.should_exit = False
        self.started = False
        self.servers: list[Any] = []
        self.server_state = types.SimpleNamespace(connections=set())
        self.door = config.app.__self__._app

    async def serve(self, sockets: list[Any]) -> None:
        """Serve until the exit is requested."""
        self.started = True
        await until(lambda: self.should_exit)
        await until(lambda: not self.door.in_progress)


def _stand_in(name: str, **values: Any) -> types.ModuleType:
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(values)
    return module


def _import_replica() -> types.ModuleType:
    """Import the replica module without Ray's deployment class."""
    context = types.SimpleNamespace(_deployment_config=DEPLOYMENT)
    _stand_in("ray", serve=_stand_in("ray.serve", get_replica_context=lambda: context))
    _stand_in("uvicorn", Server=Server, Config=lambda app, **_: types.SimpleNamespace(app=app))
    (runtime,) = daybreak_runtime.__path__
    _stand_in("daybreak_runtime.llm", __path__=[str(Path(runtime) / "llm")])
    from daybreak_runtime.llm import replica

    return replica


class EngineClient:
    """Fake of vLLM's client of an engine that runs in a separate process."""

    def __init__(self, fault: str) -> None:
        self.process = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)  # noqa: S607
        self._fault = fault

    @property
    def errored(self) -> bool:
        """Return True if the process has ended."""
        return self.process.poll() is not None

    def get_num_unfinished_requests(self) -> int:
        """Return 0: the replica never uses the number."""
        return 0

    def shutdown(self) -> None:
        """End the engine process; the fault may make that fail."""
        print(json.dumps({"shutdown": self._fault}), flush=True)
        if self._fault == "shutdown":
            raise RuntimeError("the engine's sockets are gone")
        if self._fault == "hung":
            threading.Event().wait()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Fake of vLLM's app: a request in progress ends with an error when the engine has died."""
        await until(lambda: self.errored and self._fault != "answer")
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


async def ask(door: Any, name: str) -> None:
    """Send a request, and print its answer."""
    answer = await Client().ask(door)
    finals = [value.decode() for value in answer.header(b"x-daybreak-final")]
    print(json.dumps({"request": name, "status": answer.status, "final": finals}), flush=True)


async def main(fault: str) -> None:
    """Run a replica with one request in the engine and a waiting one, until its end."""
    module = _import_replica()
    if fault in SHORTENED:
        assert getattr(module, SHORTENED[fault]) > 0
        setattr(module, SHORTENED[fault], 0.2)
    from daybreak_runtime.llm.engine import Engine

    client = EngineClient(fault)
    app: Any = client.app
    holder = type("App", (), {"state": types.SimpleNamespace(), "__call__": staticmethod(app)})()
    replica = module.Replica(
        Engine(types.SimpleNamespace(_engine_client=client)), holder, {}, ready=lambda: True
    )
    await replica.start()
    door = holder.state.server.door
    requested = [asyncio.create_task(ask(door, name)) for name in ("begun", "waiting")]
    await until(lambda: (door.admission.running, door.admission.waiting) == (1, 1))
    health = await Client(path="/-/healthz", method="GET").ask(door)
    print(json.dumps({"engine": client.process.pid, "health": health.status}), flush=True)
    await asyncio.gather(*requested)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
