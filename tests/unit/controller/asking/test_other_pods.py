"""Resources on nodes that other pods use."""

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

import pytest

from daybreak.controller.asking import other_pods
from daybreak.controller.asking.other_pods import OtherPods
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.scheduling.room import Booked
from tests.unit.clock import Clock
from tests.unit.llmservice.decide.scenes.services import Manifest, pod

OURS: Booked = {"a": {"nvidia.com/gpu": Decimal(1)}}


class PlayedApi:
    """Fake API server that lists pods by node."""

    def __init__(self, **pods: list[Manifest]) -> None:
        self.pods = pods
        self.requested: list[str] = []
        self.fails: ApiError | None = None

    async def request(
        self, verb: str, resource: object, path: str, *, query: Mapping[str, str]
    ) -> dict[str, Any]:
        assert (verb, path, query["labelSelector"]) == ("list", "/api/v1/pods", "!daybreak.dev/owner-kind")
        node = query["fieldSelector"].removeprefix("spec.nodeName=")
        self.requested.append(node)
        if self.fails is not None:
            raise self.fails
        return {"items": self.pods.get(node, [])}


def other(gpus: int, **more: Any) -> Manifest:
    """Return a pod outside Daybreak."""
    return pod("other", gpus=gpus, **more)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def asks(api: PlayedApi, clock: Clock) -> OtherPods:
    return OtherPods(cast(Api, api), clock)


async def test_resources_of_running_other_pods_are_added_per_node(clock: Clock) -> None:
    ended = other(4, status={"phase": "Succeeded"})
    api = PlayedApi(a=[on("a", other(2)), on("a", ended)], b=[on("b", other(1)), on("b", other(1))])
    found = await asks(api, clock).beside(OURS, {"a", "b", "c"})
    gpus = {node: taken.get("nvidia.com/gpu") for node, taken in found.items()}
    assert gpus == {"a": 3, "b": 2, "c": None}
    assert OURS["a"]["nvidia.com/gpu"] == 1, "what is known of our own stays"


async def test_pods_of_node_are_listed_again_only_when_answer_is_stale(clock: Clock) -> None:
    api = PlayedApi(a=[on("a", other(2))])
    others = asks(api, clock)
    for _ in range(3):
        assert (await others.beside({}, {"a"}))["a"]["nvidia.com/gpu"] == 2
    assert api.requested == ["a"]
    clock.now += other_pods.FRESH_SECONDS
    await others.beside({}, {"a"})
    assert api.requested == ["a", "a"]


async def test_forbidden_pod_list_adds_no_resources_and_is_retried_after_pause(clock: Clock) -> None:
    api = PlayedApi(a=[on("a", other(2))])
    api.fails = ApiError(403, "Forbidden", "no")
    others = asks(api, clock)
    assert await others.beside(OURS, {"a", "b"}) == OURS
    clock.now += 60
    assert await others.beside(OURS, {"a", "b"}) == OURS
    assert api.requested == ["a"]
    api.fails = None
    clock.now += other_pods.REFUSED_SECONDS
    assert (await others.beside(OURS, {"a"}))["a"]["nvidia.com/gpu"] == 3


async def test_unreachable_api_server_is_queried_again_at_next_call(clock: Clock) -> None:
    api = PlayedApi(a=[on("a", other(2))])
    api.fails = ApiError(0, "", "away")
    others = asks(api, clock)
    assert await others.beside(OURS, {"a"}) == OURS
    api.fails = None
    assert (await others.beside(OURS, {"a"}))["a"]["nvidia.com/gpu"] == 3


async def test_large_cluster_is_queried_for_limited_number_of_nodes(clock: Clock) -> None:
    api = PlayedApi()
    await asks(api, clock).beside({}, {f"n{number:03}" for number in range(1000)})
    assert len(api.requested) == other_pods.MOST_NODES


async def test_known_calls_back_when_answer_changes(clock: Clock) -> None:
    api = PlayedApi(a=[on("a", other(2))])
    others, reported = asks(api, clock), asyncio.Event()
    assert others.known({"a"}, reported.set) is None
    await reported.wait()
    assert others.known({"a"}, reported.set) == {"a": {"cpu": Decimal(2), "nvidia.com/gpu": Decimal(2)}}
    # An old answer counts until there is another one; an equal answer notifies no waiter.
    reported.clear()
    clock.now += other_pods.FRESH_SECONDS
    assert others.known({"a"}, reported.set) == {"a": {"cpu": Decimal(2), "nvidia.com/gpu": Decimal(2)}}
    await asyncio.sleep(0.01)
    assert (api.requested, reported.is_set()) == (["a", "a"], False)
    api.pods["a"] = []
    clock.now += other_pods.FRESH_SECONDS
    others.known({"a"}, reported.set)
    await reported.wait()
    assert others.known({"a"}, reported.set) == {"a": {}}


async def test_known_returns_no_resources_after_forbidden_list(clock: Clock) -> None:
    api = PlayedApi()
    api.fails = ApiError(403, "Forbidden", "no")
    others, reported = asks(api, clock), asyncio.Event()
    assert others.known({"a"}, reported.set) is None
    await reported.wait()
    assert others.known({"a"}, reported.set) == {}


def on(node: str, manifest: Manifest) -> Manifest:
    """Return the pod on a node."""
    return {**manifest, "spec": {**manifest["spec"], "nodeName": node}}
