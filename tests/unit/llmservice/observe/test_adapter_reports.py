"""The operator polls replicas for the state of their adapters, over real HTTP, until it is final."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from daybreak.kinds.llmservice.observe import adapter_reports as module
from daybreak.kinds.llmservice.observe.adapter_reports import (
    AdapterProber,
    Replica,
    adapter_prober,
    http_reporter,
    read,
    replicas,
)
from daybreak.kinds.llmservice.observe.observed import AdapterReport
from daybreak.manifests.keys import Key
from daybreak.ray.serve.adapter_origin import identity
from tests.unit.llmservice.decide.scenes.services import CPU_MODEL, HEAD, World, manifest, pod
from tests.unit.waiting import until

KEY = Key("ns", "s")
ADAPTER = {"name": "fr", "source": "file:///adapters/fr"}
LOADED, LOADING = (AdapterReport("1", state) for state in ("Loaded", "Loading"))


def replica(name: str = "w-1", **ids: str) -> Replica:
    """Return a replica that should have these adapters."""
    return Replica(name, f"ip-of-{name}", frozenset((ids or {"fr": "1"}).items()))


HERE = Replica("w-1", "127.0.0.1", frozenset())


class Reporter:
    """Reporter that returns preset adapter reports."""

    def __init__(self) -> None:
        self.message: dict[str, Mapping[str, AdapterReport] | None] = {}
        self.requested: list[str] = []

    async def report(self, requested: Replica) -> Mapping[str, AdapterReport] | None:
        """Return the preset report of the replica."""
        self.requested.append(requested.address)
        return self.message.get(requested.address)

    async def close(self) -> None:
        """Do nothing: the fake has no connection."""


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll again without a pause."""
    monkeypatch.setattr(module, "PAUSE_SECONDS", (0.005, 0.01))


@pytest.fixture
def reporter() -> Reporter:
    """Return the fake reporter that the tests poll."""
    return Reporter()


@pytest.fixture
async def prober(reporter: Reporter, called: list[Key]) -> AsyncIterator[AdapterProber]:
    made = adapter_prober(reporter, called.append)
    yield made
    await made.close()


async def test_prober_polls_until_adapters_are_loaded(
    prober: AdapterProber, reporter: Reporter, called: list[Key]
) -> None:
    assert prober.reports(KEY, [replica()]) == {}
    await until(lambda: len(reporter.requested) > 2)
    assert called == []
    reporter.message["ip-of-w-1"] = {"fr": LOADING}
    await until(lambda: bool(called))
    assert (called, prober.reports(KEY, [replica()])) == ([KEY], {"w-1": {"fr": LOADING}})
    reporter.message["ip-of-w-1"] = {"fr": LOADED}
    await until(lambda: len(called) > 1)
    assert (called, prober.reports(KEY, [replica()])) == ([KEY, KEY], {"w-1": {"fr": LOADED}})
    requested = len(reporter.requested)
    await asyncio.sleep(0.03)
    assert len(reporter.requested) == requested


async def test_prober_polls_until_removed_adapter_is_gone(prober: AdapterProber, reporter: Reporter) -> None:
    reporter.message["ip-of-w-1"] = {"fr": LOADED, "old": LOADED}
    prober.reports(KEY, [replica()])
    await until(lambda: len(reporter.requested) > 2)
    reporter.message["ip-of-w-1"] = {"fr": LOADED}
    await until(lambda: prober.reports(KEY, [replica()]) == {"w-1": {"fr": LOADED}})


async def test_new_replica_is_polled_and_known_reports_stay(
    prober: AdapterProber, reporter: Reporter
) -> None:
    reporter.message = {"ip-of-w-1": {"fr": LOADED}, "ip-of-w-2": {"fr": LOADED}}
    prober.reports(KEY, [replica()])
    await until(lambda: bool(prober.reports(KEY, [replica()])))
    reporter.requested.clear()
    both = [replica(), replica("w-2")]
    assert prober.reports(KEY, both) == {"w-1": {"fr": LOADED}}
    await until(lambda: len(prober.reports(KEY, both)) == 2)
    assert reporter.requested == ["ip-of-w-2"]
    assert prober.reports(KEY, [replica("w-2")]) == {"w-2": {"fr": LOADED}}
    assert prober.reports(KEY, []) == {}


def test_only_ready_workers_of_models_with_adapters_are_polled() -> None:
    with_lora = {**CPU_MODEL, "lora": {"adapters": [ADAPTER]}}
    world = World(manifest(with_lora, {**CPU_MODEL, "name": "plain"}))
    assert world.observed.subject is not None

    def at(ip: str, **fields: Any) -> dict[str, Any]:
        made = pod(f"pod-{ip}", **fields)
        made["status"]["podIP"] = ip
        return made

    observed = replace(
        world.observed,
        pods=(
            at("1", model="tiny"),
            at("2", model="tiny", ready=False),
            at("3", model="tiny", leaving=True),
            at("4", model="plain"),
            at("5", model="tiny", cluster="chat-bbbbb"),
            pod("no address", model="tiny"),
            HEAD,
        ),
    )
    lora = world.observed.subject.spec.models[0].lora
    assert lora is not None
    desired = frozenset({("fr", identity(lora.adapters[0]))})
    assert replicas(observed, "chat-aaaaa") == (Replica("pod-1", "1", desired),)
    assert replicas(observed, None) == ()


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (
            200,
            b'{"adapters": {"fr": {"id": "1", "state": "Rejected", "reason": "a\\n b"}}}',
            ("Rejected", "a b"),
        ),
        (200, b'{"adapters": {"fr": 3}}', ("", "")),
        (200, b"[]", None),
        (200, b"{", None),
        (404, b"{}", None),
        (302, b"{}", None),
        (200, b" " * (module.BODY_LIMIT + 1), None),
    ],
)
async def test_replica_answer_is_parsed_and_malformed_answer_is_ignored(
    status: int, body: bytes, found: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers={"location": "/elsewhere"})

    app = web.Application()
    app.router.add_get("/-/lora", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    monkeypatch.setattr(module, "DIRECT", runner.addresses[0][1])
    reporter = http_reporter()
    try:
        message = await reporter.report(HERE)
    finally:
        await reporter.close()
        await runner.cleanup()
    reported = {name: (each.state, each.reason) for name, each in (message or {}).items()}
    assert reported == ({} if found is None else {"fr": found})


async def test_unreachable_replica_gives_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DIRECT", 1)
    reporter = http_reporter()
    assert await reporter.report(HERE) is None
    await reporter.close()


def test_long_report_fields_are_truncated() -> None:
    entry = b'{"id": "%s", "state": "Failed", "reason": "%s"}' % (b"1" * 100, b"x" * 5000)
    report = read(b'{"adapters": {"fr": %s}}' % entry)["fr"]
    assert (len(report.id), len(report.reason)) == (64, module.REASON_LIMIT)
