"""ConfigMaps that objects reference: watched while an object needs them, and identified by a digest."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from daybreak.api.common.config_map import Content
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching import config_map_watch as module
from daybreak.kube.watching.config_map_watch import ConfigMapWatch
from daybreak.manifests.keys import Key

CODE, ONE, TWO = Key("ns", "code"), Key("ns", "one"), Key("ns", "two")


class ApiServer:
    """Fake API server with one ConfigMap or none."""

    def __init__(self, **data: str) -> None:
        self.requested: list[str] = []
        self.watching = 0
        self.refusal: ApiError | None = None
        self._version = 1
        self._events: list[asyncio.Queue[dict[str, Any]]] = []
        self._now = self._written(data) if data else None

    async def request(self, verb: str, resource: Any, path: str, **more: Any) -> dict[str, Any]:
        self.requested.append(f"{path}?{more['query']['fieldSelector']}")
        await asyncio.sleep(0)
        if self.refusal is not None:
            raise self.refusal
        items = [self._now] if self._now is not None else []
        return {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    async def watch(self, *_: Any) -> AsyncIterator[dict[str, Any]]:
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._events.append(events)
        self.watching += 1
        try:
            while True:
                yield await events.get()
        finally:
            self.watching -= 1

    def write(self, labels: dict[str, str] | None = None, **data: str) -> None:
        self._now = self._written(data, labels)
        self._notify("MODIFIED", self._now)

    def delete(self) -> None:
        assert self._now is not None
        self._notify("DELETED", self._written(self._now["data"]))
        self._now = None

    def _notify(self, kind: str, manifest: dict[str, Any]) -> None:
        for events in self._events:
            events.put_nowait({"type": kind, "object": manifest})

    def _written(self, data: dict[str, str], labels: dict[str, str] | None = None) -> dict[str, Any]:
        self._version += 1
        metadata = {"name": "code", "namespace": "ns", "uid": "u", "labels": labels or {}}
        return {"metadata": {**metadata, "resourceVersion": str(self._version)}, "data": data}


class Asker:
    """Fake owner that requests contents, and records notifications of changes."""

    def __init__(self, server: ApiServer) -> None:
        self._reported: dict[Key, asyncio.Event] = {ONE: asyncio.Event(), TWO: asyncio.Event()}
        self.watch = ConfigMapWatch(cast("Api", server), lambda owner: self._reported[owner].set())

    def content(self, owner: Key = ONE, name: str | None = "code") -> Content | None:
        """Return the currently known content."""
        return self.watch.contents(owner, [name] if name is not None else []).get(name or "")

    async def after(self, owner: Key = ONE) -> Content | None:
        """Return the known content after the owner's next notification."""
        async with asyncio.timeout(5):
            await self._reported[owner].wait()
        await asyncio.sleep(0.01)  # further effects of the same change
        self._reported[owner].clear()
        return self.content(owner)


async def test_digest_changes_with_data_but_not_with_labels() -> None:
    server = ApiServer(a="1")
    asker = Asker(server)
    assert asker.content() == Content(awaited=True)
    first = await asker.after()
    assert first is not None
    assert first.digest
    server.write({"team": "blue"}, a="1")
    assert await asker.after() == first
    server.write(a="2")
    second = await asker.after()
    assert second is not None
    assert second.digest not in ("", first.digest)
    server.write(a="1")
    assert await asker.after() == first
    await asker.watch.close()


async def test_config_map_is_missing_before_creation_and_after_deletion() -> None:
    server = ApiServer()
    asker = Asker(server)
    asker.content()
    assert await asker.after() == Content(missing=True)
    server.write(a="1")
    found = await asker.after()
    assert found is not None
    assert found.digest
    server.delete()
    assert await asker.after() == Content(missing=True)
    await asker.watch.close()


async def test_owners_share_one_watch_that_ends_with_last_owner() -> None:
    server = ApiServer(a="1")
    asker = Asker(server)
    for owner in (ONE, TWO):
        asker.content(owner)
    await asker.after()
    assert server.requested == ["/api/v1/namespaces/ns/configmaps?metadata.name=code"]
    server.write(a="2")
    await asker.after(TWO)
    asker.watch.forget(ONE)
    assert server.watching == 1
    assert asker.content(TWO, None) is None, "its code comes from elsewhere now"
    await asyncio.sleep(0.01)
    assert server.watching == 0


async def test_content_is_unknown_if_list_is_forbidden() -> None:
    server = ApiServer(a="1")
    server.refusal = ApiError(403, "Forbidden", "no")
    asker = Asker(server)
    asker.content()
    assert await asker.after() == Content()
    await asker.watch.close()


async def test_failed_watch_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer(a="1")
    asker = Asker(server)

    async def broken(*_: Any, **__: Any) -> dict[str, Any]:
        raise RuntimeError

    monkeypatch.setattr(module, "RETRY_SECONDS", 0.02)
    with monkeypatch.context() as patched:
        patched.setattr(server, "request", broken)
        asker.content()
        await asyncio.sleep(0.01)
        assert asker.content() == Content(awaited=True)
    found = await asker.after()
    assert found is not None
    assert found.digest
    await asker.watch.close()
