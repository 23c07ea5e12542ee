"""The replica, Serve and the API that the checks talk to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp


@dataclass(frozen=True)
class Target:
    """Where everything is, without a slash at the end."""

    replica: str
    serve: str
    dashboard: str
    model: str
    token: str = ""

    @asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """A client with as many connections as are wanted."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield session

    def completion(self, tokens: int, *, stream: bool = False) -> dict[str, Any]:
        """A request of so many tokens, no less."""
        return {
            "model": self.model,
            "prompt": "Good morning",
            "max_tokens": tokens,
            "min_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": stream,
        }

    async def deployment(self, session: aiohttp.ClientSession) -> dict[str, Any]:
        """What Serve says of the model's deployment."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with session.get(f"{self.dashboard}/api/serve/applications/", headers=headers) as answer:
            answer.raise_for_status()
            document = await answer.json()
        name = "LLMServer:" + self.model.replace("/", "--").replace(".", "_")
        for application in document["applications"].values():
            if name in application["deployments"]:
                return dict(application["deployments"][name])
        raise LookupError(f"Serve has no deployment {name}")
