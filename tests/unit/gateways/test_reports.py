"""The operator listens to every gateway pod of a namespace, as pods are created and deleted."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.common.unstructured import written
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.gates.traffic import AgedReport, ModelReports, together
from daybreak.gateways import reports as module
from daybreak.gateways.reports import GatewayReports
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey, gateway_key
from daybreak.manifests.resources import PODS
from daybreak.protocol.reports import Report
from daybreak.protocol.tallies import GatewayTally, RouteTally, Tallies, Tally

A = OwnerKey.of_label("ns", "a")


class GatewayListener:
    """Fake listener that receives the reports of the test."""

    made: dict[str, "GatewayListener"]

    def __init__(self, url: str, session: object, on_change: Any, prove: object) -> None:
        self.on_change = on_change
        self.closed = False
        self.on_tallies: Any = None
        self.tallies: dict[str, Tallies] = {}
        self.report: Report | None = None
        self.tried = asyncio.Event()
        type(self).made[url] = self

    def observed(self, service: str) -> ModelReports | None:
        """Return the last report about model m."""
        return {"m": AgedReport(self.report, timedelta(0))} if self.report else None

    async def close(self) -> None:
        """Record the end of the listener."""
        self.closed = True


@pytest.fixture
def enqueued() -> dict[OwnerKey, float]:
    """Return the requeued workloads, with their delays."""
    return {}


@pytest.fixture
def cache() -> Cache:
    """Return a cache with the known services."""
    found = Cache()
    for namespace, name in (("ns", "a"), ("ns", "b"), ("other", "a")):
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "resourceVersion": "1",
        }
        found.put(LLM_SERVICES, {"metadata": metadata})
    return found


@pytest.fixture
async def gateways(
    cache: Cache, enqueued: dict[OwnerKey, float], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[GatewayReports]:
    """Return the reports that the operator collects from gateways."""
    GatewayListener.made = {}
    monkeypatch.setattr(module, "GatewayListener", GatewayListener)
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.05)
    listening = GatewayReports(cache, [LLM_SERVICES, MODEL_SERVERS], enqueued.__setitem__)
    yield listening
    await listening.close()
    assert all(each.closed for each in GatewayListener.made.values())


def pod(name: str, ip: str | None, version: int = 1, **status: Any) -> dict[str, Any]:
    """Return a gateway pod."""
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "resourceVersion": str(version),
        "labels": names.gateway_labels(),
    }
    running = [{"name": "gateway", "state": {"running": {}}}]
    return {
        "metadata": metadata,
        "status": {"phase": "Running", "containerStatuses": running, "podIP": ip, **status},
    }


def url(ip: str) -> str:
    """Return the address of a pod's stream."""
    return f"http://{ip}:{names.GATEWAY_HTTP_PORT}/state"


def report(**message: Any) -> Report:
    """Return one gateway's report."""
    parts = {"arrivals": 0, "held": 0, "in_flight": 0, "idle_ms": 1000, "servers_up": 1}
    return Report(**{"epoch": 3, "gate": "open", **parts, **message})


async def test_reports_of_all_gateway_pods_are_summed(gateways: GatewayReports, cache: Cache) -> None:
    assert gateways.received(A) == ()
    cache.put(PODS, pod("one", "10.0.0.1"))
    cache.put(PODS, pod("two", "fd00::2"))
    gateways.refresh("ns")
    one, two = GatewayListener.made[url("10.0.0.1")], GatewayListener.made[url("[fd00::2]")]
    assert gateways.received(A) == (None, None)
    one.report = report(held=2, epoch=4)
    half = together(gateways.received(A), "m")
    assert (half.known, half.held) == (False, 2)
    two.report = report(held=1, in_flight=5)
    traffic = together(gateways.received(A), "m")
    assert traffic.known
    assert (traffic.held, traffic.in_flight, traffic.acknowledged) == (3, 5, 3)
    assert gateways.received(OwnerKey.of_label("other", "a")) == ()


@pytest.mark.parametrize(
    "status",
    [
        {"podIP": None},
        {"phase": "Succeeded"},
        {"phase": "Failed"},
        {"containerStatuses": [{"name": "gateway", "state": {"terminated": {"exitCode": 0}}}]},
        {
            "containerStatuses": [
                {"name": "agent", "state": {"running": {}}},
                {"name": "gateway", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ]
        },
    ],
)
async def test_pod_that_cannot_serve_requests_is_not_listened_to(
    status: dict[str, Any], gateways: GatewayReports, cache: Cache, enqueued: dict[OwnerKey, float]
) -> None:
    cache.put(PODS, pod("one", "10.0.0.1"))
    gateways.refresh("ns")
    cache.put(PODS, pod("one", "10.0.0.1", version=2, **status))
    gateways.refresh("ns")
    await asyncio.sleep(0)
    assert GatewayListener.made[url("10.0.0.1")].closed
    assert gateways.received(A) == ()
    assert set(enqueued) == {A, OwnerKey.of_label("ns", "b")}


def leaving(seconds: float) -> dict[str, Any]:
    """Return a terminating pod that ends in `seconds`: Kubernetes writes that time at the deletion."""
    found = pod("one", "10.0.0.1", version=2)
    found["metadata"]["deletionTimestamp"] = written(datetime.now(UTC) + timedelta(seconds=seconds))
    return found


async def test_terminating_pod_is_listened_to_until_its_deletion_time(
    gateways: GatewayReports, cache: Cache
) -> None:
    cache.put(PODS, leaving(600))
    again = gateways.refresh("ns")
    assert not GatewayListener.made[url("10.0.0.1")].closed
    assert again is not None
    assert 600 < again < 600 + 2 * module.GONE_SECONDS, "looked at again when it should be gone"


async def test_pod_past_its_deletion_time_is_not_listened_to(gateways: GatewayReports, cache: Cache) -> None:
    """The node is dead: the pod is never removed, and it would keep every service awake."""
    cache.put(PODS, pod("one", "10.0.0.1"))
    assert gateways.refresh("ns") is None
    cache.put(PODS, leaving(-2 * module.GONE_SECONDS))
    assert gateways.refresh("ns") is None
    await asyncio.sleep(0)
    assert GatewayListener.made[url("10.0.0.1")].closed


async def test_pod_of_another_component_is_not_listened_to(gateways: GatewayReports, cache: Cache) -> None:
    other = pod("one", "10.0.0.1")
    other["metadata"]["labels"] = {**names.gateway_labels(), names.COMPONENT_LABEL: "ray"}
    cache.put(PODS, other)
    gateways.refresh("ns")
    assert GatewayListener.made == {}


async def test_second_refresh_keeps_existing_listener(gateways: GatewayReports, cache: Cache) -> None:
    cache.put(PODS, pod("one", "10.0.0.1"))
    gateways.refresh("ns")
    first = GatewayListener.made[url("10.0.0.1")]
    gateways.refresh("ns")
    assert GatewayListener.made[url("10.0.0.1")] is first


async def test_listener_change_enqueues_services_of_its_namespace(
    gateways: GatewayReports, cache: Cache, enqueued: dict[OwnerKey, float]
) -> None:
    cache.put(PODS, pod("one", "10.0.0.1"))
    gateways.refresh("ns")
    GatewayListener.made[url("10.0.0.1")].on_change({"b"})
    assert enqueued == {OwnerKey.of_label("ns", "b"): 0.0}
    GatewayListener.made[url("10.0.0.1")].on_change(None)
    assert set(enqueued) == {A, OwnerKey.of_label("ns", "b")}, "all of the namespace, and of no other"


async def test_settle_ends_even_if_gateway_never_reports(gateways: GatewayReports, cache: Cache) -> None:
    await gateways.settle()
    cache.put(PODS, pod("one", "10.0.0.1"))
    gateways.refresh("ns")
    waiting = asyncio.create_task(gateways.settle())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    GatewayListener.made[url("10.0.0.1")].tried.set()
    await asyncio.wait_for(waiting, 10)


async def test_wait_for_first_reports_ends_without_them(
    gateways: GatewayReports, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.1)
    cache.put(PODS, pod("one", "10.0.0.1"))
    gateways.refresh("ns")
    await asyncio.wait_for(gateways.settle(), 10)


def test_gateway_key_has_empty_owner_name() -> None:
    assert gateway_key("ns") == OwnerKey.of_label("ns", "")


async def test_listener_change_enqueues_known_model_server(
    gateways: GatewayReports, cache: Cache, enqueued: dict[OwnerKey, float]
) -> None:
    metadata = {"name": "a", "namespace": "ns", "uid": "server", "resourceVersion": "1"}
    cache.put(MODEL_SERVERS, {"metadata": metadata})
    cache.put(PODS, pod("one", "10.0.0.1"))
    gateways.refresh("ns")
    listener = GatewayListener.made[url("10.0.0.1")]
    listener.on_change({"server.a", "server.b", "batch.a"})
    known = OwnerKey.of_label("ns", "server.a")
    assert set(enqueued) == {known}, "unknown names are ignored"
    listener.on_change(None)
    assert set(enqueued) == {known, A, OwnerKey.of_label("ns", "b")}


def by_start(gateways: GatewayReports) -> tuple[GatewayTally, ...]:
    """Return the gateways' reports about the route `chat`, in order of their start."""
    return tuple(sorted(gateways.reported("ns", "chat"), key=lambda reported: reported.gateway))


async def test_route_tallies_are_kept_after_their_gateway_pod_ends(
    gateways: GatewayReports, cache: Cache
) -> None:
    reported: list[str] = []
    gateways.on_tallies = reported.append
    cache.put(PODS, pod("one", "10.0.0.1"))
    cache.put(PODS, pod("two", "10.0.0.2"))
    gateways.refresh("ns")
    one, two = (GatewayListener.made[url(f"10.0.0.{number}")] for number in (1, 2))
    assert gateways.reported("ns", "chat") == ()
    first, second = (RouteTally("t", {"s/m": Tally(sent=number)}) for number in (1, 2))
    one.tallies = {"1.0": {"chat": first}, "1.5": {"chat": second}}
    two.tallies = {"2.0": {"chat": first, "other": first}}
    two.on_tallies()
    assert reported == ["ns"]
    both = (
        GatewayTally("1.0", True, first),
        GatewayTally("1.5", False, second),
        GatewayTally("2.0", False, first),
    )
    assert by_start(gateways) == both
    assert gateways.reported("elsewhere", "chat") == ()
    cache.put(PODS, pod("one", "10.0.0.1", version=2, phase="Succeeded"))
    gateways.refresh("ns")
    await asyncio.sleep(0)
    gone = (
        GatewayTally("1.0", True, first),
        GatewayTally("1.5", True, second),
        GatewayTally("2.0", False, first),
    )
    assert by_start(gateways) == gone
    assert reported == ["ns", "ns"]
    for number in range(module.MOST_GONE):
        cache.put(PODS, pod("more", "10.0.0.3", version=2 * number + 1))
        gateways.refresh("ns")
        GatewayListener.made[url("10.0.0.3")].tallies = {f"3.{number}": {"chat": first}}
        cache.put(PODS, pod("more", "10.0.0.3", version=2 * number + 2, phase="Failed"))
        gateways.refresh("ns")
    assert len(gateways.reported("ns", "chat")) == module.MOST_GONE + 1, "no more are kept"
