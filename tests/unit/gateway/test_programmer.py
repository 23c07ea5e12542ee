"""What HAProxy is told, and in which order; a HAProxy that the test plays."""

import asyncio
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.gateway.agent import programmer as module
from daybreak.gateway.agent.programmer import Programmer
from daybreak.gateway.agent.wanted import Ports
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Service
from daybreak.kube.cache import Cache
from daybreak.kube.resources import PODS


class PlayedGateway:
    """Writes down what it is told."""

    config = SimpleNamespace(first_port=20000, last_port=20003, model_backends=2)

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.refuses: set[str] = set()
        self.services: dict[int, Service] = {}
        self.left: dict[int, int] = {}
        self.ended: list[int] = []
        self.empty: set[int] = set()
        """Backends of models whose last request has ended."""

    async def set_service(self, slot: int, service: Service) -> None:
        self._refuse("set")
        self.services[slot] = service
        self.told.append(("set", slot, service.name, service.gate.value, service.epoch))

    async def told_all(self) -> None:
        self._refuse("ready")

    async def unset_service(self, slot: int) -> None:
        self._refuse("unset")
        self.told.append(("unset", slot))

    async def set_servers(self, slot: int, servers: Collection[Server]) -> None:
        self._refuse("servers")
        self.told.append(("servers", slot, *(server.host for server in servers)))

    async def set_model_servers(self, number: int, servers: Collection[Server]) -> None:
        self._refuse("servers")
        self.told.append(("model servers", number, *(server.host for server in servers)))

    async def end_model_backend(self, number: int) -> bool:
        self.ended.append(number)
        return number in self.empty

    async def remove_left_servers(self, slot: int) -> bool:
        self.left[slot] = self.left.get(slot, 0) + 1
        return False

    def _refuse(self, what: str) -> None:
        if what in self.refuses:
            raise RuntimeApiError(what)

    def take(self) -> list[tuple[Any, ...]]:
        told, self.told = self.told, []
        return told


class Scene:
    """A programmer that runs, and what it sees."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.gateway = PlayedGateway()
        self.pokes: list[bool] = []
        self.version = 0
        self.programmer = Programmer(
            self.cache,
            cast(Gateway, self.gateway),
            namespace="ns",
            ports=Ports(),
            keys=KeyFiles(Path("/nonexistent")),
            on_told=self.pokes.append,
        )

    def service(self, name: str, state: str, slot: int = 0, *, uid: str = "", **gate: Any) -> None:
        self.version += 1
        metadata = self._metadata(name, uid or name) | {"creationTimestamp": name}
        gate = {"state": state, "epoch": self.version, "port": 20000 + slot, "cluster": "c"} | gate
        self.cache.put(LLM_SERVICES, {"metadata": metadata, "spec": {}, "status": {"gate": gate}})

    def gone(self, name: str) -> None:
        self.version += 1
        self.cache.drop(LLM_SERVICES, {"metadata": self._metadata(name, name)})

    def head(self, service: str, host: str, cluster: str = "c") -> None:
        self.version += 1
        labels = {"daybreak.dev/service": service, "ray.io/cluster": cluster, "ray.io/node-type": "head"}
        metadata = self._metadata(f"{cluster}-head", cluster) | {"labels": labels}
        self.cache.put(PODS, {"metadata": metadata, "status": {"podIP": host, "phase": "Running"}})

    async def settled(self) -> list[tuple[Any, ...]]:
        """What HAProxy has been told by the time that nothing is left to tell."""
        await asyncio.sleep(0.05)
        return self.gateway.take()

    def _metadata(self, name: str, uid: str) -> dict[str, Any]:
        return {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(self.version)}


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(module, "TICK_SECONDS", 0.01)
    made = Scene()
    running = asyncio.create_task(made.programmer.run())
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_opens_last_and_closes_first(scene: Scene) -> None:
    scene.head("a", "10.0.0.1")
    scene.service("a", "Open")
    assert await scene.settled() == [("servers", 0, "10.0.0.1"), ("set", 0, "a", "open", 2)]
    scene.service("a", "Closed", cluster="none")
    assert await scene.settled() == [("set", 0, "a", "closed", 3), ("servers", 0)]
    assert scene.pokes == [False, False]


async def test_nothing_new_is_told_once(scene: Scene) -> None:
    scene.service("a", "Closed")
    assert await scene.settled() == [("set", 0, "a", "closed", 1), ("servers", 0)]
    scene.service("a", "Closed", epoch=1)
    scene.head("a", "10.0.0.1", cluster="other")
    assert await scene.settled() == []


async def test_a_service_that_goes(scene: Scene) -> None:
    scene.service("a", "Closed")
    await scene.settled()
    scene.gone("a")
    assert await scene.settled() == [("unset", 0)]
    assert scene.pokes[-1] is True
    assert scene.gateway.left[0]


async def test_another_service_of_the_same_name(scene: Scene) -> None:
    scene.service("a", "Closed")
    await scene.settled()
    scene.service("a", "Closed", uid="second")
    assert (await scene.settled())[0] == ("unset", 0)


async def test_a_service_that_moves(scene: Scene) -> None:
    scene.service("a", "Closed")
    await scene.settled()
    scene.service("a", "Closed", slot=2)
    assert await scene.settled() == [("unset", 0), ("set", 2, "a", "closed", 2), ("servers", 2)]


async def test_a_port_given_twice(scene: Scene) -> None:
    scene.service("old", "Closed")
    scene.service("older", "Closed", slot=1)
    await scene.settled()
    scene.service("young", "Open")
    assert await scene.settled() == []
    scene.gone("old")
    told = await scene.settled()
    assert told[0] == ("unset", 0)
    assert told[-1][:4] == ("set", 0, "young", "open")


async def test_a_port_out_of_range(scene: Scene) -> None:
    scene.service("a", "Open", slot=4)
    scene.service("b", "Closed", slot=3)
    assert {row[1] for row in await scene.settled()} == {3}


@pytest.mark.parametrize("refused", ["set", "servers"])
async def test_what_failed_is_tried_again(scene: Scene, refused: str) -> None:
    scene.gateway.refuses.add(refused)
    scene.service("a", "Closed")
    scene.service("b", "Closed", slot=1)
    await scene.settled()
    scene.gateway.refuses.clear()
    await scene.settled()
    scene.service("a", "Closed", epoch=1)
    assert await scene.settled() == []
    # Half of it may be there: it is taken away as well.
    scene.gateway.refuses.add("unset")
    scene.gone("a")
    assert await scene.settled() == []
    scene.gateway.refuses.clear()
    assert await scene.settled() == [("unset", 0)]


async def test_what_failed_is_tried_again_while_others_change(scene: Scene) -> None:
    scene.gateway.refuses.add("set")
    scene.service("a", "Closed")
    await scene.settled()
    scene.gateway.refuses.clear()
    told: list[tuple[Any, ...]] = []
    async with asyncio.timeout(20):
        while ("set", 0, "a", "closed", 1) not in told:
            scene.service("b", "Closed", slot=1)
            await asyncio.sleep(0.002)
            told += scene.gateway.take()


async def test_what_was_told_only_in_part_is_taken_away(scene: Scene) -> None:
    scene.gateway.refuses.add("servers")
    scene.service("a", "Closed")
    assert await scene.settled() == [("set", 0, "a", "closed", 1)]
    scene.gone("a")
    assert await scene.settled() == [("unset", 0)]


async def test_the_end(scene: Scene) -> None:
    scene.service("a", "Closed")
    await scene.settled()
    await scene.programmer.refuse()
    assert scene.gateway.take() == [("set", 0, "a", "failed", 1)]
    scene.service("a", "Open")
    assert await scene.settled() == []


class TestSeveralModels:
    """Each model has a backend of its own, as long as there are backends."""

    def set(self, scene: Scene, *models: str, slot: int = 0, name: str = "a") -> None:
        scene.service(name, "Open", slot, models=list(models))

    async def test_backends_before_the_gate_that_leads_there(self, scene: Scene) -> None:
        scene.head("a", "10.0.0.1")
        self.set(scene, "x", "y")
        told = await scene.settled()
        assert told[:-1] == [
            ("servers", 0, "10.0.0.1"),
            ("model servers", 0, "10.0.0.1"),
            ("model servers", 1, "10.0.0.1"),
        ]
        assert told[-1][0] == "set"
        assert scene.gateway.services[0].backends == {"x": 0, "y": 1}

    async def test_the_models_that_none_is_left_for_are_asked_by_the_proxy(self, scene: Scene) -> None:
        self.set(scene, "x", "y", "z")
        await scene.settled()
        assert scene.gateway.services[0].backends == {"x": 0, "y": 1}

    async def test_a_backend_is_given_again_when_its_last_request_has_ended(self, scene: Scene) -> None:
        self.set(scene, "x", "y")
        await scene.settled()
        self.set(scene, "x")
        await scene.settled()
        assert scene.gateway.services[0].backends == {}, "a service with one model has the slot's own"
        self.set(scene, "v", "w", slot=1, name="b")
        await scene.settled()
        assert scene.gateway.services[1].backends == {}, "both may still have requests"
        scene.gateway.empty.update((0, 1))
        await scene.settled()
        assert sorted(scene.gateway.services[1].backends.values()) == [0, 1]

    async def test_a_service_that_goes_gives_them_back(self, scene: Scene) -> None:
        self.set(scene, "x", "y")
        await scene.settled()
        scene.gone("a")
        await scene.settled()
        assert set(scene.gateway.ended) == {0, 1}
