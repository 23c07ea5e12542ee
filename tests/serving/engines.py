"""Daybreak's LLMServer with a stub engine: a process that can be killed. Run by Ray's Python.

The class, its port, its counts and its end are those of a real replica; only the engine behind them is not.
Each token takes a tenth of a second.
"""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from ray import serve
from starlette.responses import JSONResponse

from daybreak_runtime.llm.engine import Engine
from daybreak_runtime.llm.replica import Replica
from daybreak_runtime.llm.server import LLMServer

TOKEN_SECONDS = 0.1


class EngineDead(Exception):
    """The engine ended before the answer was complete."""


class Client:
    """vLLM's client, with a process instead of an engine."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "3600"])  # noqa: S607
        self._unfinished = 0

    @property
    def errored(self) -> bool:
        """Return True if the process has ended."""
        return self.process.poll() is not None

    def get_num_unfinished_requests(self) -> int:
        """Return the number of requests in progress."""
        return self._unfinished

    async def generate(self, tokens: int) -> None:
        """Take as long as a number of tokens takes; raise EngineDead if the process ends first."""
        self._unfinished += 1
        try:
            for _ in range(tokens):
                await asyncio.sleep(TOKEN_SECONDS)
                if self.errored:
                    raise EngineDead
        finally:
            self._unfinished -= 1

    def shutdown(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


class StubEngine:
    """Ray Serve LLM's engine object, as far as `daybreak_runtime.llm.engine` uses it."""

    def __init__(self) -> None:
        self._engine_client = self.client = Client()

    async def build_asgi_app(self) -> FastAPI:
        """Return an app with completions."""
        app = FastAPI()

        async def completions(request: Request) -> JSONResponse:
            try:
                await self.client.generate(int((await request.json())["max_tokens"]))
            except EngineDead:
                return JSONResponse({"error": {"message": "the engine has died"}}, 500)
            return JSONResponse({"pid": os.getpid()})

        app.add_api_route("/v1/completions", completions, methods=["POST"])
        return app


class StubServer(LLMServer):
    """Starts the stub in place of vLLM, and writes its process ids and its port to a file of the folder."""

    async def __init__(self, folder: str) -> None:  # type: ignore[misc]  # Serve awaits it
        os.environ["DAYBREAK_HTTP_PORT"] = "0"
        self.engine = None
        self._stub = StubEngine()
        engine = Engine(self._stub)
        self._replica = Replica(engine, await engine.app(), self.own_paths(), lambda: True)
        await self._replica.start()
        ids = {"pid": os.getpid(), "engine": self._stub.client.process.pid}
        written = Path(folder) / f"{os.getpid()}.new"
        written.write_text(json.dumps({**ids, "port": self._replica._listener.port}))
        written.rename(written.with_suffix(".json"))

    async def __call__(self, request: Any) -> Any:
        """Answer a request that comes through Serve's proxy."""
        await self._stub.client.generate(int((await request.json())["max_tokens"]))
        return {"pid": os.getpid()}

    async def __del__(self) -> None:
        await super().__del__()
        self._stub.client.shutdown()


def engines(args: dict[str, Any]) -> serve.Application:
    """One deployment with the options that Daybreak writes for a model."""
    return serve.deployment(StubServer).options(**args["options"]).bind(args["folder"])
