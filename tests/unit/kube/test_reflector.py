"""List and watch against an API server with faults that a real one cannot be made to have."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration
from structlog.testing import capture_logs

from daybreak.api.schema.resource import Resource
from daybreak.kube import client
from daybreak.kube.client import Api, Query
from daybreak.kube.errors import ApiError
from daybreak.kube.watching import reflector as module
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.reflector import Reflector, backoff
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import SERVICES

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses for the test."""
    monkeypatch.setattr(module, "BACKOFF_SECONDS", (0.001, 0.01))


class ApiServer:
    """Fake that answers lists and watches with preset answers in order, and records the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.requested: list[dict[str, str]] = []
        self._answers = list(answers)
        self.done = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the next answer; if none is left, hang."""
        self.requested.append(dict(request.query))
        if not self._answers:
            self.done.set()
            await asyncio.sleep(60)
        return await self._answers.pop(0)(request)


def page(*items: dict[str, Any], version: str = "10", more: str = "") -> Answer:
    """Return a page of a list."""
    body = {"metadata": {"resourceVersion": version, "continue": more}, "items": list(items)}

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body)

    return answer


def refusal(status: int) -> Answer:
    """Return an error."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "no", "code": status}, status=status)

    return answer


def events(*what: dict[str, Any], broken: bool = False) -> Answer:
    """Return a watch with these events, ended by the server or by a break in the middle of a line."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in what:
            await response.write(json.dumps(event).encode() + b"\n")
        if broken:
            await response.write(b'{"type": "ADD')
            assert request.transport is not None
            request.transport.close()
        return response

    return answer


def item(name: str, version: int) -> dict[str, Any]:
    """Return an object."""
    return {"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}}


def event(kind: str, name: str, version: int) -> dict[str, Any]:
    """Return an event of a watch."""
    return {"type": kind, "object": item(name, version)}


EXPIRED = {
    "type": "ERROR",
    "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
}


@asynccontextmanager
async def reflecting(
    server: ApiServer, **options: Any
) -> AsyncIterator[tuple[Reflector, Cache, asyncio.Task[None]]]:
    """Run a reflector of Services."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    async with TestServer(app) as listening:
        api = Api(Configuration(host=str(listening.make_url("")).rstrip("/")))
        cache = Cache()
        reflector = Reflector(api, cache, SERVICES, selector="a=b", **options)
        task = asyncio.create_task(reflector.run())
        try:
            yield reflector, cache, task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await api.close()


def known(cache: Cache) -> list[str]:
    """Return the names in the cache."""
    return sorted(key.name for key in cache.keys(SERVICES))


async def test_reflector_reads_all_pages_and_watches_from_list_version() -> None:
    server = ApiServer(page(item("a", 1), more="next"), page(item("b", 2), version="20"))
    async with reflecting(server) as (reflector, cache, _):
        await asyncio.wait_for(server.done.wait(), 10)
        assert reflector.synced.is_set()
        assert known(cache) == ["a", "b"]
    first, second, watch = server.requested
    assert first["labelSelector"] == second["labelSelector"] == watch["labelSelector"] == "a=b"
    assert second["continue"] == "next"
    assert (watch["watch"], watch["resourceVersion"], watch["allowWatchBookmarks"]) == ("true", "20", "true")


async def test_events_and_bookmarks_advance_watch_version() -> None:
    watched = events(
        event("ADDED", "a", 11),
        event("MODIFIED", "a", 12),
        event("ADDED", "b", 13),
        event("DELETED", "a", 14),
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "99"}}},
    )
    server = ApiServer(page(), watched)
    async with reflecting(server) as (_, cache, _task):
        await asyncio.wait_for(server.done.wait(), 10)
        assert known(cache) == ["b"]
    assert server.requested[-1]["resourceVersion"] == "99"


async def test_watch_resumes_from_last_event_after_broken_connection() -> None:
    server = ApiServer(page(), events(event("ADDED", "a", 15), broken=True))
    async with reflecting(server) as (_, cache, _task):
        await asyncio.wait_for(server.done.wait(), 10)
        assert known(cache) == ["a"]
    assert server.requested[-1]["resourceVersion"] == "15"


@pytest.mark.parametrize("reported", [events(EXPIRED), refusal(410)])
async def test_expired_version_starts_new_list(reported: Answer) -> None:
    again = page(item("b", 30), version="40")
    server = ApiServer(page(item("a", 1)), reported, again)
    async with reflecting(server) as (_, cache, _task):
        await asyncio.wait_for(server.done.wait(), 10)
        assert known(cache) == ["b"], "a was deleted when nobody watched"
    assert server.requested[-1]["resourceVersion"] == "40"


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_list_that_fails_is_tried_again(status: int) -> None:
    server = ApiServer(refusal(status), refusal(status), page(item("a", 1)))
    async with reflecting(server) as (reflector, cache, _):
        await asyncio.wait_for(server.done.wait(), 10)
        assert known(cache) == ["a"]
        assert reflector.permitted


async def test_reflector_syncs_as_not_permitted_if_list_is_forbidden() -> None:
    server = ApiServer(refusal(403))
    async with reflecting(server) as (reflector, cache, _):
        await asyncio.wait_for(reflector.synced.wait(), 10)
        assert not reflector.permitted
        assert known(cache) == []


async def test_reflector_recovers_after_temporary_forbidden_answers() -> None:
    server = ApiServer(page(item("a", 1)), refusal(403), refusal(403), page(item("a", 1)))
    async with reflecting(server) as (reflector, cache, _):
        await asyncio.wait_for(server.done.wait(), 10)
        assert reflector.permitted
        assert known(cache) == ["a"]


async def test_optional_reflector_ends_if_resource_kind_is_removed() -> None:
    server = ApiServer(page(item("a", 1)), refusal(404))
    async with reflecting(server, optional=True) as (_, _cache, task):
        await asyncio.wait_for(task, 10)


def silence(*, started: bool = True) -> Answer:
    """Return a watch without any event or end; without `started`, also without the response's head."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if started:
            await response.prepare(request)
        await asyncio.sleep(30)
        return response

    return answer


async def quiet(request: web.Request) -> web.StreamResponse:
    """Return a watch without events and bookmarks that ends at the requested time."""
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.sleep(int(request.query["timeoutSeconds"]))
    return response


async def test_dead_watch_is_given_up_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCH_SECONDS", (0, 0))
    monkeypatch.setattr(module, "STALL_MARGIN_SECONDS", 0.05)
    server = ApiServer(page(item("a", 1)), silence())
    async with reflecting(server):
        await asyncio.wait_for(server.done.wait(), 10)
    assert [requested.get("resourceVersion") for requested in server.requested] == [None, "10", "10"]


async def test_watch_that_does_not_begin_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "WATCH_START_SECONDS", 0.05)
    server = ApiServer(page(item("a", 1)), silence(started=False))
    async with reflecting(server):
        await asyncio.wait_for(server.done.wait(), 10)
    assert [requested.get("resourceVersion") for requested in server.requested] == [None, "10", "10"]


async def test_quiet_watch_ends_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCH_SECONDS", (1, 1))
    server = ApiServer(page(item("a", 1)), quiet)
    with capture_logs() as logs:
        async with reflecting(server):
            await asyncio.wait_for(server.done.wait(), 10)
    assert logs == []
    assert [requested.get("resourceVersion") for requested in server.requested] == [None, "10", "10"]


async def test_quiet_watch_ends_before_it_counts_as_dead() -> None:
    """Regardless of the requested length, an API server guarantees no bookmarks."""
    watched: list[tuple[float, float]] = []

    class Watched:
        async def request(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {"metadata": {"resourceVersion": "10"}, "items": []}

        async def watch(self, _: Resource, __: str, query: Query, stall: float) -> AsyncIterator[Any]:
            watched.append((float(query["timeoutSeconds"]), stall))
            if len(watched) == 50:
                raise ApiError(404, "NotFound", "enough")
            yield event("ADDED", "a", 11)

    reflector = Reflector(cast(Api, Watched()), Cache(), SERVICES, optional=True)
    await asyncio.wait_for(reflector.run(), 10)
    assert len(watched) == 50
    assert [(length, stall) for length, stall in watched if not length < stall] == []
    assert max(stall for _, stall in watched) <= 600


async def test_objects_are_listed_again_after_relist_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELIST_SECONDS", 0.0)
    server = ApiServer(page(item("a", 1)), page(item("b", 30), version="40"))
    async with reflecting(server) as (_, cache, _task):
        await asyncio.wait_for(server.done.wait(), 10)
        assert known(cache) == ["b"]


def test_backoff_grows_to_maximum() -> None:
    for failures in range(1, 200):
        middle = min(30.0, 0.2 * 2 ** (failures - 1))
        assert 0.5 * middle <= backoff(failures, 0.2, 30.0) <= 1.5 * middle


def test_key_text_omits_empty_namespace() -> None:
    assert [str(Key("ns", "a")), str(Key("", "node"))] == ["ns/a", "node"]
