"""Cost of one LLMService alongside others: the reads of a reconcile do not grow with their number."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.resource import Resource
from daybreak.controller.asking.model_client import ModelClient
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.llmservice.decide import defaults
from daybreak.kinds.llmservice.kind import llm_services
from daybreak.kinds.llmservice.objects import desired
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from daybreak.kube.watching import cache
from daybreak.loop.observer import GatewaySource
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import NODES, PODS
from tests.parts import parts
from tests.unit.clock import Clock
from tests.unit.kube.counted import Counted
from tests.unit.llmservice.decide.scenes.services import GPU_MODEL, PLATFORM, Manifest, manifest, pod

ONE = Key("default", "chat")


class Server:
    """API server that stores and counts the applied objects."""

    def __init__(self) -> None:
        self.version = 0
        self.requested: list[str] = []

    def stored(self, found: Manifest) -> Manifest:
        """Add the fields that the API server sets."""
        self.version += 1
        given = {"uid": f"uid-{self.version}", **found["metadata"], "resourceVersion": str(self.version)}
        return {**found, "metadata": given}

    async def request(
        self, verb: str, resource: Resource, path: str, *, body: Any = None, **_: Any
    ) -> Manifest:
        self.requested.append(f"{verb} {resource.kind}")
        return self.stored(body)

    async def find(self, resource: Resource, path: str) -> None:
        """Return None: no object exists."""
        self.requested.append(f"get {resource.kind}")


class NoGateway:
    """Source of gateway reports without a gateway."""

    def received(self, _: Key) -> tuple[()]:
        return ()

    def remains(self, _: str) -> bool:
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Set the cache's clock."""
    found = Clock()
    monkeypatch.setattr(cache, "time", SimpleNamespace(monotonic=found))
    return found


async def _cost(clock: Clock, others: int, waited: float = 0.0) -> tuple[int, int, list[str]]:
    """Return the cost of creating one service alongside `others` services with a pod each.

    The service has waited in the work queue for `waited` seconds. The cost consists of the read objects, the
    iterated names, and the requests.
    """
    server, known = Server(), Counted()
    for number in range(others):
        for namespace in ("default", "other"):
            name, version = f"s{number}", {"namespace": namespace}
            other = manifest(GPU_MODEL)
            other["metadata"] |= {"name": name, "uid": f"{namespace}-{name}", **version}
            known.put(LLM_SERVICES, server.stored(other))
            its = pod(f"{name}-w", gpus=1)
            its["metadata"] |= version
            its["metadata"]["labels"] |= {
                "daybreak.dev/owner-kind": "LLMService",
                "daybreak.dev/owner-name": name,
            }
            known.put(PODS, server.stored(its))
    known.put(LLM_SERVICES, server.stored(manifest(GPU_MODEL)))
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    node = {"metadata": {"name": "a"}, "status": {"allocatable": allocatable}}
    known.put(NODES, server.stored(node))
    watches = SimpleNamespace(kuberay_installed=True, nodes_known=True)
    around = parts(known, watches, PLATFORM, server)
    around.nodes.nodes()
    ports = PortAllocator(known)
    kind = llm_services(around, cast(ModelClient, None), cast(GatewaySource, NoGateway()), ports)
    known.read = known.named = 0
    clock.now += waited
    await kind.reconcile(ONE)
    return known.read, known.named, server.requested


async def test_reconcile_cost_is_independent_of_number_of_services(clock: Clock) -> None:
    few, many = await _cost(clock, 2), await _cost(clock, 60)
    assert many == few
    assert "create RayService" in few[2]
    assert few[2][-1] == "update LLMService", "its status"


async def test_reconcile_cost_is_independent_of_wait_in_work_queue(clock: Clock) -> None:
    first, last = await _cost(clock, 2), await _cost(clock, 2, waited=200)
    assert last == first


async def test_reconcile_builds_ray_service_once(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def noted(*given: Any) -> Manifest:
        built.append(given[0].name)
        return ray_service(*given)

    for module in (desired, defaults):
        monkeypatch.setattr(module, "ray_service", noted)
    await _cost(clock, 0)
    assert built == ["chat"]
