"""A fake Ray Serve proxy: answers requests, and records their clients."""

import asyncio
import io
from collections import Counter
from enum import StrEnum
from typing import Self

from aiohttp import web

from daybreak.gateway.hold.servers import Server

EVENT_SECONDS = 0.3


class FakeServe:
    """Listens on the loopback while it is entered, on a free port unless one is given."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, health: str = "/-/healthz") -> None:
        self._health_path = health
        self._host = host
        self._port = port
        self.observed: Counter[str] = Counter()
        """How often each request, by its X-Request-Id, has arrived."""
        self.whole: Counter[str] = Counter()
        """Number of completely received requests, by their X-Request-Id."""
        self.bodies: dict[str, bytes] | None = None
        """Set: the bodies that arrived, by their X-Request-Id."""
        self.paths: dict[str, str] = {}
        """Path of each request, by its X-Request-Id."""
        self.headers: dict[str, str] = {}
        """The headers of the latest request, names in lower case."""
        self.finish = asyncio.Event()
        """Set: streams end."""
        self.streams = 0
        """Streams that have begun and have not ended."""
        self.hold_answers = False
        """True if answers also wait for `finish`."""
        self.events = 0
        """Events of a stream between its first and its last, EVENT_SECONDS apart."""
        self.listed = 0
        """Number of requests for the list of models."""
        self.answer_bytes = 0
        """Size of answers in bytes, instead of JSON, if not 0."""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**30)
        app.router.add_get(self._health_path, self._health)
        app.router.add_get("/v1/models{name:.*}", self._models)
        app.router.add_get("/v1/chat/completions", self._echo)
        app.router.add_post("/v1/completions", self._stream)
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, backlog=2048)
        await site.start()
        self.address = Server(*self._runner.addresses[0][:2])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.finish.set()
        await self._runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="success")

    async def _models(self, _: web.Request) -> web.Response:
        self.listed += 1
        return web.json_response({"object": "list", "data": [{"id": "from Serve"}]})

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path.startswith("/-/") and not request.path.startswith(f"{self._health_path}/"):
            return web.json_response({"detail": "Not Found"}, status=404)
        name = request.headers["X-Request-Id"]
        self.observed[name] += 1
        self.paths[name] = request.path
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        size = 0
        async for chunk in request.content.iter_any():
            size += len(chunk)
            if self.bodies is not None:
                self.bodies[name] = self.bodies.get(name, b"") + chunk
        self.whole[name] += 1
        if self.hold_answers:
            await self.finish.wait()
        if self.answer_bytes:
            return web.Response(body=io.BytesIO(b"z" * self.answer_bytes))
        # As vLLM's server answers.
        return web.json_response({"id": name, "bytes": size}, headers={"Access-Control-Allow-Origin": "*"})

    async def _echo(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"echo of {message.data}")
        return socket

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        self.observed[request.headers["X-Request-Id"]] += 1
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        self.streams += 1
        try:
            await answer.write(b"data: first\n\n")
            for _ in range(self.events):
                await asyncio.sleep(EVENT_SECONDS)
                await answer.write(b"data: more\n\n")
            await self.finish.wait()
            await answer.write(b"data: [DONE]\n\n")
        finally:
            self.streams -= 1
        return answer


class Manner(StrEnum):
    """How a broken Serve treats a request that it has read."""

    CLOSES = "closes the connection without a word"
    RESETS = "breaks the answer off after its head"
    RUBBISH = "answers with something that is not HTTP"
    SILENT = "says nothing"


class BrokenServe:
    """A fake Serve proxy that is healthy, and answers no request as it should."""

    def __init__(self, manner: Manner) -> None:
        self.manner = manner
        self.observed = 0
        """Requests that have arrived, health checks left out."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.address = Server(*self._server.sockets[0].getsockname()[:2])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /-/healthz"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            self.observed += 1
            if self.manner is Manner.RUBBISH:
                writer.write(b"rubbish\r\n\r\n")
            elif self.manner is Manner.RESETS:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
                await writer.drain()
                await asyncio.sleep(1)  # what came before the end is passed on by then
            elif self.manner is Manner.SILENT:
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
