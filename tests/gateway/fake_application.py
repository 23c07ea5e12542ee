"""A fake Ray Serve proxy before an application of any protocol: echoes requests, and records them."""

from collections import Counter
from typing import Self

from aiohttp import web

from daybreak.gateway.hold.servers import Server


class FakeApplication:
    """Listens on the loopback while it is entered."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.observed: Counter[tuple[str, str]] = Counter()
        """How often each method and path has arrived."""
        self.bodies: list[bytes] = []
        """Bodies, in the order of their arrival."""
        self.status = 200
        """Status of the answers."""
        self.dies = ""
        """Makes the process end when it has read a request: `before` its answer, or `within` it."""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**30)
        app.router.add_get("/-/healthz", self._health)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self.address = Server(*self._runner.addresses[0][:2])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="success")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.observed[request.method, request.raw_path] += 1
        if request.headers.get("Upgrade") == "websocket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            async for message in socket:
                await socket.send_str(f"echo of {message.data}")
            return socket
        body = await request.read()
        self.bodies.append(body)
        if self.dies and request.transport is not None:
            begun = web.StreamResponse()
            if self.dies == "within":
                await begun.prepare(request)
                await begun.write(b"some")
            request.transport.close()
            return begun
        return web.Response(status=self.status, body=body)
