"""Updates of the router's routes, with a stub router."""

import asyncio
import hashlib
import itertools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.resource import Resource
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import NOBODY, KeyFiles
from daybreak.gateway.router import routes as module
from daybreak.gateway.router.external import External
from daybreak.gateway.router.router import Route, Router
from daybreak.gateway.router.routes import RouteKeeper
from daybreak.gateway.router.shares import Share, Way
from daybreak.kube.watching.cache import Cache
from tests.unit.llmroute.routes import service

CA = {"name": "ca", "key": "pem"}
PEM = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----"


class PlayedRouter:
    """Stub router that records its commands."""

    stopping = False

    def __init__(self) -> None:
        self.reported: asyncio.Queue[Mapping[str, Route]] = asyncio.Queue()
        self.shares: asyncio.Queue[Collection[Share]] = asyncio.Queue()
        self.refuses = 0
        self.externals: list[Collection[External]] = []

    async def set_externals(self, externals: Collection[External]) -> None:
        self.externals.append(externals)

    async def set_routes(self, routes: Mapping[str, Route], shares: Collection[Share]) -> None:
        if self.refuses:
            self.refuses -= 1
            raise RuntimeApiError("away")
        self.reported.put_nowait(routes)
        self.shares.put_nowait(shares)


async def test_new_and_changed_keys_are_sent_to_router(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
            # Before the gateway reads the key, no client sees the model.
            assert await router.reported.get() == {"tiny": Route(20000, "one", (NOBODY,))}
            file = tmp_path / "team" / "research"
            file.parent.mkdir()
            for key in (b"sk-one", b"sk-two"):
                file.write_bytes(key)
                digest = hashlib.sha256(key).hexdigest()
                # The gateway may have read the file while it was empty.
                while (reported := await router.reported.get())["tiny"].keys == (NOBODY,):
                    pass
                assert reported == {"tiny": Route(20000, "one", (digest,))}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert keeper.reported


async def test_changed_routes_and_services_are_sent_to_router(tmp_path: Path) -> None:
    cache, router = Cache(), PlayedRouter()
    versions = itertools.count(1)

    def put(resource: Resource, manifest: dict[str, Any]) -> None:
        manifest["metadata"] |= {"namespace": "ns", "resourceVersion": str(next(versions))}
        cache.put(resource, manifest)

    def write(*weights: int, **more: Any) -> None:
        backends = [
            {"service": name, "model": "a", "weight": weight}
            for name, weight in zip(("one", "two"), weights, strict=True)
        ]
        status = {"names": ["chat"], "backends": backends, "sleepingBackends": "Skip", **more}
        put(LLM_ROUTES, {"metadata": {"name": "chat", "uid": "chat"}, "status": status})

    put(LLM_SERVICES, service("one", "a", port=20000))
    put(LLM_SERVICES, service("two", "a", "b", port=20001))
    (tmp_path / "ca").mkdir()
    (tmp_path / "ca" / "pem").write_text(PEM)

    async def resolve(host: str, port: int) -> list[str]:
        assert (host, port) == ("api.example.com", 443)
        return ["203.0.113.7"]

    keys = KeyFiles(tmp_path)
    ports = range(20000, 20010)
    keeper = RouteKeeper(cache, cast(Router, router), namespace="ns", ports=ports, keys=keys, resolve=resolve)
    running = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(30):
            assert await router.shares.get() == []
            write(9, 1)
            ways = (Way("one", "a", 20000, 9), Way("two", "a", 20001, 1))
            assert await router.shares.get() == [Share("chat", ("chat",), ways)]
            write(8, 2)
            ways = (Way("one", "a", 20000, 8), Way("two", "a", 20001, 2))
            assert await router.shares.get() == [Share("chat", ("chat",), ways)]
            put(LLM_SERVICES, service("two", "a", "b", port=20001, state="Closed"))
            assert await router.shares.get() == [Share("chat", ("chat",), ways[:1])]
            # The address of an external model is set before the first share leads to it.
            outside = {"url": "https://api.example.com/v1", "model": "big", "caSecretRef": CA}
            write(8, 2, externalFallback=outside)
            away = Way("external.api.example.com", "big", 0, 0)
            assert await router.shares.get() == [Share("chat", ("chat",), ways[:1], fallback=(away,))]
            assert [each.address for each in router.externals[-1]] == ["203.0.113.7"]
            cache.drop(LLM_ROUTES, {"metadata": {"name": "chat", "namespace": "ns", "resourceVersion": "99"}})
            assert await router.shares.get() == []
            assert not router.externals[-1]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
