"""A second Ray cluster has taken over: gateways report the first one while it has requests."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.village import Village, village

BODY = b'{"model": "big"}'


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Village]:
    async with village(tmp_path, "big") as made:
        yield made


async def test_replaced_cluster_is_reported_until_last_stream_ends(scene: Village) -> None:
    await scene.gate(big="Open")
    await scene.until("big", lambda report: report.clusters == ("c",))
    streaming = asyncio.create_task(scene.stream(BODY))
    await scene.until("big", lambda report: report.in_flight == 1)
    second = await scene.replica("big", cluster="d")
    scene.backends = [{"cluster": "d", "weight": 100}]
    await scene.gate(big="Open")
    await scene.until("big", lambda report: report.clusters == ("c", "d"))
    await asyncio.sleep(3)  # servers without a request are gone after a second
    report = scene.report("big")
    assert report is not None
    assert (report.clusters, report.in_flight) == (("c", "d"), 1)
    assert (await scene.ask("new", BODY))[0] == 200
    assert second.observed == {"new": 1}
    scene.replicas["big"].finish.set()
    assert (await streaming).endswith(b"[DONE]\n\n")
    await scene.until("big", lambda report: report.clusters == ("d",))


async def test_replaced_cluster_without_requests_is_no_longer_reported(scene: Village) -> None:
    await scene.gate(big="Open")
    await scene.replica("big", cluster="d")
    scene.backends = [{"cluster": "d", "weight": 100}]
    await scene.gate(big="Open")
    await scene.until("big", lambda report: report.clusters == ("d",), 10)
