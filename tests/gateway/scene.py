"""A namespace of a real API server with its gateway, which has the rights of its Role, and a fake Serve."""

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ControlPlane
from daybreak.api.common import names
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.assembly import WORKLOADS
from daybreak.gateways.objects import gateway
from tests.api.admin import Admin
from tests.api.conftest import start_plane
from tests.api.objects.llmservice import tiny
from tests.api.playing.kuberay import head_labels, play_pod
from tests.gateway.agent_process import AgentProcess
from tests.gateway.fake_serve import FakeServe
from tests.golden.test_samples import PLATFORM


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """Yield a control plane for the group `gateway-agent`: a test that stops its API server restarts it."""
    with start_plane("gateway", kuberay=False) as own:
        yield own


class Scene:
    """A namespace with its gateway, and the hand that plays operator and KubeRay."""

    def __init__(self, admin: Admin, agent: AgentProcess, serve: FakeServe) -> None:
        self.admin = admin
        self.agent = agent
        self.serve = serve
        self.epoch = 0
        self.goes_well = True
        """False: errors in the agent's log belong to the test."""

    def service(self, name: str = "tiny", **spec: Any) -> None:
        """Make an LLMService."""
        self.admin.create(tiny(name, **spec))

    def head(self, service: str = "tiny", cluster: str = "tiny-abcde") -> None:
        """Make the head pod of a RayCluster; the fake Serve listens there."""
        play_pod(self.admin, f"{cluster}-head", head_labels(service, cluster), self.serve.address.host)

    async def gate(self, state: str, name: str = "tiny", slot: int = 0, **more: Any) -> int:
        """Write the gate as the operator does, and wait until the gateway has it. Returns the epoch."""
        self.write_gate(state, name, slot, **more)
        await self.agent.until(f"{name}/tiny", lambda report: report.epoch == self.epoch)
        return self.epoch

    def write_gate(
        self, state: str, name: str = "tiny", slot: int = 0, *, cluster: str = "", **more: Any
    ) -> None:
        """Write the gate of a service with one model as the operator does."""
        self.epoch += 1
        model = {"name": "tiny", "state": state, "epoch": self.epoch, "holdSeconds": 300}
        model |= {"phase": "Awake", "phaseTransitionTime": "2026-01-01T00:00:00Z"} | more
        gate = {
            "port": self.agent.first_port + slot,
            "backends": [{"cluster": cluster or f"{name}-abcde", "weight": 100}],
            "models": [model],
        }
        self.admin.merge("LLMService", name, {"status": {"gate": gate}}, subresource="status")


@pytest.fixture
def drain_seconds() -> int:
    """Return the drain timeout of the gateway in seconds."""
    return 120


@pytest.fixture
def programs() -> type[AgentProcess]:
    """Return the class that starts the gateway's programs."""
    return AgentProcess


@pytest.fixture
async def scene(
    plane: ControlPlane, tmp_path: Path, drain_seconds: int, programs: type[AgentProcess]
) -> AsyncIterator[Scene]:
    name = f"gw-{uuid.uuid4().hex[:8]}"
    admin = Admin(plane.kubeconfig)
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    own = admin.within(name)
    for manifest in gateway(name, WORKLOADS, PLATFORM, routes=[LLM_ROUTES]):
        if manifest["kind"] in ("Role", "RoleBinding"):
            own.create(manifest)
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{name}"]
    kubeconfig = tmp_path / "agent.kubeconfig"
    plane.write_kubeconfig(kubeconfig, f"system:serviceaccount:{name}:{names.GATEWAY}", groups)
    async with FakeServe() as serve:
        agent = programs(kubeconfig, name, tmp_path, serve.address.port, drain_seconds)
        async with agent.running():
            made = Scene(own, agent, serve)
            yield made
        assert not made.goes_well or '"level": "error"' not in agent.log(), agent.log()[-3000:]
