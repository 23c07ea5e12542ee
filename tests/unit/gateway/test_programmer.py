"""Commands to HAProxy and their order, with a stub HAProxy."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybreak.api.common import names
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.gateway.agent import programmer as module
from daybreak.gateway.agent.programmer import Programmer
from daybreak.gateway.desired.gates import Ports
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Slot
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.resources import PODS


class PlayedGateway:
    """Stub gateway that records its commands."""

    config = SimpleNamespace(first_port=20000, last_port=20003, model_backends=4)

    def __init__(self) -> None:
        self.reported: list[tuple[Any, ...]] = []
        self.refuses: set[str] = set()
        self.gates: dict[str, Slot] = {}
        self.left: set[str] = set()
        self.looked: set[str] = set()
        self.empties: set[str] = set()
        """Backends that have no requests left."""

    async def set_gate(self, backend: str, slot: Slot) -> None:
        self._refuse("set")
        self.gates[backend] = slot
        self.reported.append(("set", backend, slot.name, slot.gate.value, slot.epoch))

    async def notified_all(self) -> None:
        self._refuse("ready")

    async def remove_gate(self, backend: str) -> None:
        self._refuse("remove")
        self.reported.append(("remove", backend))

    async def unset_gate(self, backend: str) -> None:
        self._refuse("unset")
        self.reported.append(("unset", backend))

    async def set_servers(self, backend: str, servers: Collection[Server]) -> None:
        self._refuse("servers")
        self.reported.append(("servers", backend, *(server.host for server in servers)))

    async def empty(self, backend: str) -> bool:
        self.looked.add(backend)
        return backend in self.empties

    async def remove_left_servers(self, backend: str) -> bool:
        self.left.add(backend)
        return False

    def _refuse(self, what: str) -> None:
        if what in self.refuses:
            raise RuntimeApiError(what)

    def take(self) -> list[tuple[Any, ...]]:
        reported, self.reported = self.reported, []
        return reported


class Scene:
    """A running programmer and its inputs."""

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
            on_programmed=self.pokes.append,
        )

    def service(self, name: str, state: str, slot: int = 0, *, uid: str = "", **more: Any) -> None:
        """Set a service with one model."""
        self.several(name, {"x": state}, slot, uid=uid, **{"epoch": self.version + 1} | more)

    def several(
        self,
        name: str,
        states: Mapping[str, str],
        slot: int = 0,
        *,
        uid: str = "",
        cluster: str = "c",
        epoch: int = 1,
    ) -> None:
        self.version += 1
        metadata = self._metadata(name, uid or name) | {"creationTimestamp": name}
        models = [{"name": model, "state": state, "epoch": epoch} for model, state in states.items()]
        gate = {"port": 20000 + slot, "backends": [{"cluster": cluster}], "models": models}
        self.cache.put(LLM_SERVICES, {"metadata": metadata, "spec": {}, "status": {"gate": gate}})

    def gone(self, name: str) -> None:
        self.version += 1
        self.cache.drop(LLM_SERVICES, {"metadata": self._metadata(name, name)})

    def head(self, service: str, host: str, cluster: str = "c") -> None:
        self.version += 1
        labels = {**names.owner_labels(service), "ray.io/cluster": cluster, "ray.io/node-type": "head"}
        metadata = self._metadata(f"{cluster}-head", cluster) | {"labels": labels}
        self.cache.put(PODS, {"metadata": metadata, "status": {"podIP": host, "phase": "Running"}})

    async def settled(self) -> list[tuple[Any, ...]]:
        """Return the commands that HAProxy received until the programmer became idle."""
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


async def test_gate_opens_after_and_closes_before_servers_change(scene: Scene) -> None:
    scene.head("a", "10.0.0.1")
    scene.service("a", "Open")
    assert await scene.settled() == [("servers", "s0", "10.0.0.1"), ("set", "s0", "a/x", "open", 2)]
    scene.service("a", "Closed", cluster="none")
    assert await scene.settled() == [("set", "s0", "a/x", "closed", 3), ("servers", "s0")]
    assert scene.pokes == [False, False]


async def test_unchanged_service_causes_no_commands(scene: Scene) -> None:
    scene.service("a", "Closed")
    assert await scene.settled() == [("set", "s0", "a/x", "closed", 1), ("servers", "s0")]
    scene.service("a", "Closed", epoch=1)
    scene.head("a", "10.0.0.1", cluster="other")
    assert await scene.settled() == []


async def test_deleted_service_is_unset(scene: Scene) -> None:
    scene.service("a", "Closed")
    await scene.settled()
    scene.gone("a")
    assert await scene.settled() == [("unset", "s0")]
    assert scene.pokes[-1] is True
    assert "s0" in scene.gateway.left


async def test_previous_service_of_same_name_is_unset_first(scene: Scene) -> None:
    scene.service("a", "Closed")
    await scene.settled()
    scene.service("a", "Closed", uid="second")
    assert (await scene.settled())[0] == ("unset", "s0")


async def test_service_with_new_port_moves_to_new_backend(scene: Scene) -> None:
    scene.service("a", "Closed")
    await scene.settled()
    scene.service("a", "Closed", slot=2)
    assert await scene.settled() == [("unset", "s0"), ("set", "s2", "a/x", "closed", 2), ("servers", "s2")]


async def test_older_service_keeps_port_until_it_is_deleted(scene: Scene) -> None:
    scene.service("old", "Closed")
    scene.service("older", "Closed", slot=1)
    await scene.settled()
    scene.service("young", "Open")
    assert await scene.settled() == []
    scene.gone("old")
    reported = await scene.settled()
    assert reported[0] == ("unset", "s0")
    assert reported[-1][:4] == ("set", "s0", "young/x", "open")


async def test_service_with_port_out_of_range_is_ignored(scene: Scene) -> None:
    scene.service("a", "Open", slot=4)
    scene.service("b", "Closed", slot=3)
    assert {row[1] for row in await scene.settled()} == {"s3"}


@pytest.mark.parametrize("refused", ["set", "servers"])
async def test_failed_command_is_retried(scene: Scene, refused: str) -> None:
    scene.gateway.refuses.add(refused)
    scene.service("a", "Closed")
    scene.service("b", "Closed", slot=1)
    await scene.settled()
    scene.gateway.refuses.clear()
    await scene.settled()
    scene.service("a", "Closed", epoch=1)
    assert await scene.settled() == []
    # A part of the configuration may exist, so the programmer removes it too.
    scene.gateway.refuses.add("unset")
    scene.gone("a")
    assert await scene.settled() == []
    scene.gateway.refuses.clear()
    assert await scene.settled() == [("unset", "s0")]


async def test_failed_command_is_retried_while_other_services_change(scene: Scene) -> None:
    scene.gateway.refuses.add("set")
    scene.service("a", "Closed")
    await scene.settled()
    scene.gateway.refuses.clear()
    reported: list[tuple[Any, ...]] = []
    async with asyncio.timeout(20):
        while ("set", "s0", "a/x", "closed", 1) not in reported:
            scene.service("b", "Closed", slot=1)
            await asyncio.sleep(0.002)
            reported += scene.gateway.take()


async def test_partly_configured_service_is_unset_when_deleted(scene: Scene) -> None:
    scene.gateway.refuses.add("servers")
    scene.service("a", "Closed")
    assert await scene.settled() == [("set", "s0", "a/x", "closed", 1)]
    scene.gone("a")
    assert await scene.settled() == [("unset", "s0")]


async def test_gate_fails_at_end_and_later_changes_are_ignored(scene: Scene) -> None:
    scene.service("a", "Closed")
    await scene.settled()
    await scene.programmer.refuse()
    assert scene.gateway.take() == [("set", "s0", "a/x", "failed", 1)]
    scene.service("a", "Open")
    assert await scene.settled() == []


class TestSeveralModels:
    """Each model has its own gate, and requests without a model go to the front."""

    async def test_front_opens_after_servers_and_models(self, scene: Scene) -> None:
        scene.head("a", "10.0.0.1")
        scene.several("a", {"x": "Open", "y": "Open"})
        reported = await scene.settled()
        new = [("set", "m0", "a/x", "closed", -1), ("set", "m1", "a/y", "closed", -1)]
        assert reported[:2] == new, "so that no request with a model goes to the front"
        assert sorted(reported[2:5]) == [("servers", name, "10.0.0.1") for name in ("m0", "m1", "s0")]
        assert sorted(reported[5:7]) == [("set", "m0", "a/x", "open", 1), ("set", "m1", "a/y", "open", 1)]
        assert reported[7:] == [("set", "s0", "a", "open", 1)]
        front = scene.gateway.gates["s0"]
        assert (front.listed, front.models, front.front, front.waits) == (("x", "y"), (), True, True)
        assert [scene.gateway.gates[name].front for name in ("m0", "m1")] == [False, False]

    async def test_front_closes_before_models(self, scene: Scene) -> None:
        scene.several("a", {"x": "Open", "y": "Open"})
        await scene.settled()
        scene.several("a", {"x": "Open", "y": "Closed"}, epoch=2)
        reported = await scene.settled()
        assert reported[:2] == [("set", "s0", "a", "closed", 2), ("set", "m1", "a/y", "closed", 2)]
        assert reported[2:] == [("set", "m0", "a/x", "open", 2)]

    async def test_first_model_keeps_backend_when_models_are_added(self, scene: Scene) -> None:
        scene.service("a", "Closed", epoch=1)
        await scene.settled()
        scene.several("a", {"x": "Closed", "y": "Closed"})
        reported = await scene.settled()
        assert [row for row in reported if row[0] == "set"] == [
            ("set", "m1", "a/y", "closed", -1),
            ("set", "m0", "a", "closed", 1),
            ("set", "s0", "a/x", "closed", 1),
            ("set", "m1", "a/y", "closed", 1),
        ]
        assert [scene.gateway.gates[name].front for name in ("s0", "m0", "m1")] == [False, True, False]

    async def test_removed_model_is_unset_when_its_requests_have_ended(self, scene: Scene) -> None:
        scene.several("a", {"x": "Open", "y": "Open"})
        await scene.settled()
        scene.several("a", {"y": "Open"})
        reported = await scene.settled()
        assert reported == [("set", "s0", "a", "open", 1), ("remove", "m0"), ("servers", "m0")]
        assert scene.gateway.gates["s0"].listed == ("y",)
        assert "m0" in scene.gateway.looked
        scene.pokes.clear()
        scene.gateway.empties.add("m0")
        assert await scene.settled() == [("unset", "m0")]
        assert True in scene.pokes
        scene.several("b", {"v": "Open", "w": "Open"}, slot=1)
        await scene.settled()
        assert "m0" in {name for name, slot in scene.gateway.gates.items() if slot.service == "b"}

    async def test_model_added_again_before_unset_keeps_its_backend(self, scene: Scene) -> None:
        scene.several("a", {"x": "Open", "y": "Open"})
        await scene.settled()
        scene.several("a", {"y": "Open"})
        await scene.settled()
        scene.several("a", {"x": "Closed", "y": "Open"}, epoch=2)
        assert ("set", "m0", "a/x", "closed", 2) in await scene.settled()
        scene.gateway.empties.add("m0")
        assert await scene.settled() == []

    async def test_models_without_free_backend_share_the_front(self, scene: Scene) -> None:
        scene.several("a", {"x": "Open", "y": "Open"})
        await scene.settled()
        scene.several("b", {name: "Open" for name in "uvw"}, slot=1)
        await scene.settled()
        assert list(scene.gateway.gates["s1"].models) == ["w"]
        scene.gone("a")
        scene.gateway.empties.update(("m0", "m1"))
        await scene.settled()
        assert not scene.gateway.gates["s1"].models
        assert {slot.model for slot in scene.gateway.gates.values() if slot.service == "b"} == {*"uvw", ""}

    async def test_backend_of_first_model_becomes_front_if_none_is_free(self, scene: Scene) -> None:
        scene.several("a", {name: "Open" for name in "uvwx"})
        scene.service("b", "Open", slot=1)
        await scene.settled()
        scene.several("b", {"x": "Open", "y": "Open"}, slot=1)
        await scene.settled()
        front = scene.gateway.gates["s1"]
        assert (front.model, front.models, front.listed) == ("", ("x", "y"), ("x", "y"))

    async def test_gate_stays_set_and_closed_if_service_has_no_models(self, scene: Scene) -> None:
        scene.service("a", "Open")
        await scene.settled()
        scene.several("a", {})
        assert [row[:4] for row in await scene.settled()] == [("set", "s0", "a", "closed")]
        scene.service("a", "Open")
        assert [row[:4] for row in await scene.settled()] == [("set", "s0", "a/x", "open")]

    async def test_deleted_service_unsets_all_its_backends(self, scene: Scene) -> None:
        scene.several("a", {"x": "Open", "y": "Open"})
        await scene.settled()
        scene.gone("a")
        assert await scene.settled() == [("unset", "m0"), ("unset", "m1"), ("unset", "s0")]
        assert {"m0", "m1"} <= scene.gateway.looked
        assert "s0" not in scene.gateway.looked

    async def test_every_gate_fails_at_end(self, scene: Scene) -> None:
        scene.several("a", {"x": "Open", "y": "Closed"})
        await scene.settled()
        await scene.programmer.refuse()
        assert {row[1:4] for row in scene.gateway.take()} == {
            ("m0", "a/x", "failed"),
            ("m1", "a/y", "failed"),
            ("s0", "a", "failed"),
        }
