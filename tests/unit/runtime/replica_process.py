"""A process with a replica's port and a stand-in for its engine, a process that can be killed; run by
test_replica.py.

    python replica_process.py FAULT

Prints the process id of the engine once it has begun one request and another one waits, then a line of JSON
for each request that is answered, and one for the engine's end. FAULT is what does not go in order at its own
end: `none`, `answer` (the app never answers), `shutdown` (it raises) or `hung` (the shutdown never returns).

Ray and uvicorn are only in the Ray images. Their stand-ins do what is asked of them here, no more.
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
"""What the replica waits for in vain, by the fault: the process would end all the same, seconds later."""


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that tells nobody."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


class Server:
    """uvicorn's Server: it ends when it should and what is in progress is answered."""

    def __init__(self, config: Any) -> None:
        self.should_exit = False
        self.started = False
        self.servers: list[Any] = []
        self.server_state = types.SimpleNamespace(connections=set())
        self.door = config.app.__self__._app

    async def serve(self, sockets: list[Any]) -> None:
        """Until it should exit."""
        self.started = True
        await until(lambda: self.should_exit)
        await until(lambda: not self.door.in_progress)


def _stand_in(name: str, **values: Any) -> types.ModuleType:
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(values)
    return module


def _import_replica() -> types.ModuleType:
    """The module, without the deployment class beside it, which is one of Ray's."""
    context = types.SimpleNamespace(_deployment_config=DEPLOYMENT)
    _stand_in("ray", serve=_stand_in("ray.serve", get_replica_context=lambda: context))
    _stand_in("uvicorn", Server=Server, Config=lambda app, **_: types.SimpleNamespace(app=app))
    (runtime,) = daybreak_runtime.__path__
    _stand_in("daybreak_runtime.llm", __path__=[str(Path(runtime) / "llm")])
    from daybreak_runtime.llm import replica

    return replica


class EngineClient:
    """vLLM's client of an engine that is a process of its own."""

    def __init__(self, fault: str) -> None:
        self.process = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)  # noqa: S607
        self._fault = fault

    @property
    def errored(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    def get_num_unfinished_requests(self) -> int:
        """Nobody asks."""
        return 0

    def shutdown(self) -> None:
        """End it, which may fail."""
        print(json.dumps({"shutdown": self._fault}), flush=True)
        if self._fault == "shutdown":
            raise RuntimeError("the engine's sockets are gone")
        if self._fault == "hung":
            threading.Event().wait()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """vLLM's app: a request in progress ends with an error when the engine has died."""
        await until(lambda: self.errored and self._fault != "answer")
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


async def ask(door: Any, name: str) -> None:
    """Send a request, and say how it was answered."""
    answer = await Client().ask(door)
    finals = [value.decode() for value in answer.header(b"x-daybreak-final")]
    print(json.dumps({"request": name, "status": answer.status, "final": finals}), flush=True)


async def main(fault: str) -> None:
    """A replica with one request in the engine and one that waits, until its end."""
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
    asked = [asyncio.create_task(ask(door, name)) for name in ("begun", "waiting")]
    await until(lambda: (door.admission.running, door.admission.waiting) == (1, 1))
    health = await Client(path="/-/healthz", method="GET").ask(door)
    print(json.dumps({"engine": client.process.pid, "health": health.status}), flush=True)
    await asyncio.gather(*asked)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
