"""The operator polls cache Jobs for their copy progress over real HTTP."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from daybreak.api.common import names, volume_names
from daybreak.kinds.llmservice.observe import copy_reports as module
from daybreak.kinds.llmservice.observe.copy_reports import Copying, CopyProber, copying, http_reporter
from daybreak.kinds.llmservice.observe.observed import CopyReport
from daybreak.manifests.keys import Key
from tests.unit.llmservice.decide.scenes.services import CPU_MODEL, World, manifest, pod
from tests.unit.waiting import until

KEY = Key("ns", "s")
SOURCE = "s3://bucket/tiny"
DIRECTORY = volume_names.cached_weights(SOURCE, None)
ONE = Copying("tiny", "127.0.0.1", DIRECTORY)


class Reporter:
    """Reporter that returns a preset copy report."""

    def __init__(self) -> None:
        self.message: CopyReport | None = None
        self.requested = 0

    async def report(self, requested: Copying) -> CopyReport | None:
        """Return the preset report."""
        self.requested += 1
        return self.message

    async def close(self) -> None:
        """Do nothing: the fake has no connection."""


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll again without a pause."""
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.005)


@pytest.fixture
def reporter() -> Reporter:
    """Return the fake reporter that the tests poll."""
    return Reporter()


@pytest.fixture
async def prober(reporter: Reporter, called: list[Key]) -> AsyncIterator[CopyProber]:
    made = CopyProber(reporter, called.append)
    yield made
    await made.close()


async def test_each_copied_percent_is_reported_once(
    prober: CopyProber, reporter: Reporter, called: list[Key]
) -> None:
    assert prober.copies(KEY, [ONE]) == {}
    await until(lambda: reporter.requested > 2)
    assert called == []
    for copied in range(0, 1001, 2):  # half of a percent is nothing new
        reporter.message, before = CopyReport(copied, 1000), reporter.requested
        await until(lambda before=before: reporter.requested > before + 1)  # type: ignore[misc]
    assert len(called) == 101
    assert prober.copies(KEY, [ONE]) == {"tiny": CopyReport(1000, 1000)}


async def test_report_is_discarded_if_pod_changes_or_disappears(
    prober: CopyProber, reporter: Reporter, called: list[Key]
) -> None:
    reporter.message = CopyReport(1, 2)
    prober.copies(KEY, [ONE])
    await until(lambda: bool(called))
    assert prober.copies(KEY, [replace(ONE, address="127.0.0.2")]) == {}
    assert prober.copies(KEY, []) == {}
    requested = reporter.requested
    await asyncio.sleep(0.05)
    assert reporter.requested <= requested + 1


def test_only_running_copy_pods_are_polled() -> None:
    cached = {**CPU_MODEL, "source": SOURCE, "cache": {"size": "1Gi"}}
    world = World(manifest(cached, {**CPU_MODEL, "name": "plain"}))

    def fills(
        ip: str, model: str = "tiny", component: str = "cache", state: str = "running"
    ) -> dict[str, Any]:
        made = pod(f"pod-{ip}")
        labels = names.labels("chat", component) | {names.MODEL_LABEL: names.worker_group(model)}
        made["metadata"]["labels"] = labels
        made["status"] = {"podIP": ip, "containerStatuses": [{"name": "fill", "state": {state: {}}}]}
        return made

    pods = (
        fills("1"),
        fills("2", state="waiting"),
        fills("3", component="worker"),
        fills("4", model="plain"),
        fills(""),
    )
    assert copying(replace(world.observed, pods=pods)) == (Copying("tiny", "1", DIRECTORY),)


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (200, '{"directory": "%s", "copied": 3, "bytes": 8}', CopyReport(3, 8)),
        (200, '{"directory": "%s", "copied": 9, "bytes": 8}', CopyReport(8, 8)),
        (200, '{"directory": "%s", "copied": -9, "bytes": null}', CopyReport(0, None)),
        (200, '{"directory": "%s", "copied": "x", "bytes": 8}', CopyReport(0, 8)),
        (200, '{"directory": "another-%s", "copied": 3, "bytes": 8}', None),
        (200, '["%s"]', None),
        (200, '{"%s', None),
        (404, "{}", None),
        (302, "{}", None),
        (200, " " * (module.BODY_LIMIT + 1), None),
    ],
)
async def test_job_answer_is_parsed_and_malformed_answer_is_ignored(
    status: int, body: str, found: CopyReport | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(_: web.Request) -> web.Response:
        message = body.replace("%s", DIRECTORY)
        return web.Response(status=status, text=message, headers={"location": "/elsewhere"})

    app = web.Application()
    app.router.add_get("/-/fill", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    monkeypatch.setattr(module, "FILL", runner.addresses[0][1])
    reporter = http_reporter()
    try:
        assert await reporter.report(ONE) == found
    finally:
        await reporter.close()
        await runner.cleanup()


async def test_unreachable_job_gives_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILL", 1)
    reporter = http_reporter()
    assert await reporter.report(ONE) is None
    await reporter.close()
