"""When the router is told where models are; a router that the test plays."""

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import NOBODY, KeyFiles
from daybreak.gateway.router import routes as module
from daybreak.gateway.router.router import Route, Router
from daybreak.gateway.router.routes import RouteKeeper
from daybreak.kube.cache import Cache


class PlayedRouter:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Mapping[str, Route]] = asyncio.Queue()
        self.refuses = 0

    async def set_routes(self, routes: Mapping[str, Route]) -> None:
        if self.refuses:
            self.refuses -= 1
            raise RuntimeApiError("away")
        self.told.put_nowait(routes)


async def test_keys_that_come_and_change_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEYS_SECONDS", 0.05)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.05)
    cache, router = Cache(), PlayedRouter()
    metadata = {"name": "one", "namespace": "ns", "uid": "one", "resourceVersion": "1"}
    spec = {
        "models": [{"name": "tiny"}],
        "access": {"apiKeys": [{"secretRef": {"name": "team", "key": "research"}}]},
    }
    gate = {"port": 20000, "models": [{"name": "tiny", "state": "Closed", "epoch": 1}]}
    cache.put(LLM_SERVICES, {"metadata": metadata, "spec": spec, "status": {"gate": gate}})
    keeper = RouteKeeper(
        cache, cast(Router, router), namespace="ns", ports=range(20000, 20010), keys=KeyFiles(tmp_path)
    )
    router.refuses = 1
    running = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(30):
            # Not read yet: named to nobody.
            assert await router.told.get() == {"tiny": Route(20000, "one", (NOBODY,))}
            file = tmp_path / "team" / "research"
            file.parent.mkdir()
            for key in (b"sk-one", b"sk-two"):
                file.write_bytes(key)
                digest = hashlib.sha256(key).hexdigest()
                # The file may have been read while it was empty.
                while (told := await router.told.get())["tiny"].keys == (NOBODY,):
                    pass
                assert told == {"tiny": Route(20000, "one", (digest,))}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert keeper.told
