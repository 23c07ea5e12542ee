"""Requests to an ASGI app without a server: a client that sends, may leave, and reads the answer."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from daybreak_runtime.http.asgi import App, Header, Message


@dataclass
class Client:
    """One request.

    `pieces` is its body; `leave()` ends the connection.
    """

    path: str = "/v1/chat/completions"
    method: str = "POST"
    headers: list[Header] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=lambda: [b"{}"])
    answered: list[Message] = field(default_factory=list)
    received: int = 0
    """Number of pieces that the app has received."""
    _left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def status(self) -> int:
        """Status of the answer, or 0 before an answer."""
        return int(self.answered[0]["status"]) if self.answered else 0

    @property
    def body(self) -> bytes:
        """Return the body of the answer."""
        return b"".join(message.get("body", b"") for message in self.answered[1:])

    @property
    def error(self) -> dict[str, Any]:
        """Return the error in the answer, in OpenAI's shape."""
        found = json.loads(self.body)["error"]
        assert set(found) == {"message", "type", "param", "code"}
        return dict(found)

    def header(self, name: bytes) -> list[bytes]:
        """Return the values of a header of the answer."""
        return [value for key, value in self.answered[0]["headers"] if key == name]

    def leave(self) -> None:
        """Close the connection."""
        self._left.set()

    async def receive(self) -> Message:
        """Return the next message of the request, as a server does."""
        if self.received < len(self.pieces):
            self.received += 1
            more = self.received < len(self.pieces)
            return {"type": "http.request", "body": self.pieces[self.received - 1], "more_body": more}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Record a message of the answer, as a server does."""
        self.answered.append(message)

    async def ask(self, app: App) -> "Client":
        """Send the request, and return the client after the answer."""
        scope = {"type": "http", "path": self.path, "method": self.method, "headers": self.headers}
        await app(scope, self.receive, self.send)
        return self


class Engine:
    """App that answers on a signal, and records the received requests."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.bodies: list[bytes] = []
        self.scopes: list[Any] = []
        self.most = 0
        self.running = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request with 200."""
        self.scopes.append(scope)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            body, more = b"", scope["method"] == "POST"
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body += message["body"]
                more = message["more_body"]
            self.bodies.append(body)
            await self.go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
        finally:
            self.running -= 1


async def settle() -> None:
    """Let all ready tasks run."""
    for _ in range(20):
        await asyncio.sleep(0)
