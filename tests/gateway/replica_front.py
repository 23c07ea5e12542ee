"""A replica's own door (`daybreak_runtime.http`) on the loopback, with an engine that the test plays."""

import asyncio
from collections import Counter
from typing import Any, Self

from aiohttp import web

from daybreak.gateway.hold.servers import Server
from daybreak_runtime.http.admission import Admission
from daybreak_runtime.http.asgi import Message, Receive, Scope, Send
from daybreak_runtime.http.front import EngineFront


class ReplicaDoor:
    """Server that listens while it is entered. aiohttp replaces uvicorn, which only the Ray images have."""

    def __init__(
        self, *, limit: int = 100, most_waiting: int = 100, status: int = 200, port: int = 0
    ) -> None:
        self._port = port
        self.paths: list[str] = []
        """Paths of all requests, health checks included."""
        self.limit = limit
        self.status = status
        """Status of the engine's answers."""
        self.begun: Counter[str] = Counter()
        """How often the engine has begun each request, by its X-Request-Id."""
        self.finish = asyncio.Event()
        """Set: the engine answers."""
        self.finish.set()
        self.dead = False
        self.door = EngineFront(
            self._engine,
            Admission(lambda: self.limit, lambda: most_waiting),
            lambda: not self.dead,
            engine_alive=lambda: not self.dead,
        )

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await self._site.start()
        self.address = Server(*self._runner.addresses[0][:2])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.finish.set()
        await self._runner.cleanup()

    async def die(self) -> None:
        """Act as a replica with a dead engine: answer waiting clients, and close the port."""
        self.dead = True
        self.door.admission.close()
        await asyncio.sleep(0.1)  # uvicorn looks so often whether it is to end
        await self.close()

    async def close(self) -> None:
        """Take no more connections."""
        await self._site.stop()

    async def _engine(self, scope: Scope, receive: Receive, send: Send) -> None:
        (name,) = [value.decode() for key, value in scope["headers"] if key == b"x-request-id"]
        self.begun[name] += 1
        while (await receive()).get("more_body"):
            pass
        await self.finish.wait()
        body = b'{"id": "%s"}' % name.encode()
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": head})
        await send({"type": "http.response.body", "body": body})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        answer: web.StreamResponse | None = None
        self.paths.append(request.path)
        scope: dict[str, Any] = {
            "type": "http",
            "path": request.path,
            "method": request.method,
            "headers": [(key.lower(), value) for key, value in request.raw_headers],
        }

        async def receive() -> Message:
            if request.content.at_eof():
                await asyncio.Event().wait()
            piece = await request.content.readany()
            return {"type": "http.request", "body": piece, "more_body": not request.content.at_eof()}

        async def send(message: Message) -> None:
            nonlocal answer
            if message["type"] == "http.response.start":
                answer = web.StreamResponse(status=message["status"])
                for key, value in message["headers"]:
                    answer.headers[key.decode()] = value.decode()
                await answer.prepare(request)
            elif answer is not None:
                await answer.write(message["body"])

        await self.door(scope, receive, send)
        assert answer is not None
        await answer.write_eof()
        return answer
