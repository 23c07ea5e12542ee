"""A gateway leaves the look at bodies to replicas that have proved that they look at them."""

import asyncio
import json
import time
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.gateway.fields import fields
from tests.api.playing.kuberay import play_pod
from tests.gateway.agent_process import AgentProcess
from tests.gateway.fake_serve import FakeServe
from tests.gateway.ports import free_ports
from tests.gateway.replica_front import ReplicaDoor
from tests.gateway.scene import Scene

REPLICA_PORT = free_ports(1)
CHAT = "/v1/chat/completions"
BODY = json.dumps({"model": "tiny", "messages": [{"content": "x" * 100_000}]}).encode()
BAD = json.dumps({"model": "tiny", "messages": [{"content": "x" * 100_000}], "priority": 1}).encode()


class WithReplicas(AgentProcess):
    """A gateway that asks replicas at a port of this test's."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._environment["GATEWAY_REPLICA_PORT"] = str(REPLICA_PORT)


@pytest.fixture
def programs() -> type[AgentProcess]:
    """Return the class that starts the gateway's programs."""
    return WithReplicas


async def awake(scene: Scene, *followers: str, **spec: Any) -> None:
    """A service with a replica, and addresses of pods that are later stages of it."""
    scene.service(**spec)
    scene.head()
    labels = {
        **names.owner_labels("tiny"),
        names.RAY_CLUSTER_LABEL: "tiny-abcde",
        names.RAY_NODE_TYPE_LABEL: "worker",
        names.MODEL_LABEL: names.worker_group("tiny"),
    }
    play_pod(scene.admin, "tiny-abcde-worker", labels)
    for number, address in enumerate(followers):
        play_pod(scene.admin, f"tiny-abcde-follower-{number}", labels, address)
    await scene.gate("Open")


@pytest.mark.parametrize("followers", [0, 1])
async def test_body_check_is_left_to_replica_that_checks_bodies(scene: Scene, followers: int) -> None:
    """Also one whose pipeline has pods that never listen."""
    pipeline = {"name": "tiny", "source": "hf://a/tiny", "parallelism": {"pipeline": 1 + followers}}
    async with ReplicaDoor(port=REPLICA_PORT) as replica:
        await awake(scene, *["127.0.0.9"] * followers, models=[pipeline])
        until = time.monotonic() + 60
        while fields.guard_path() + CHAT not in replica.paths:
            assert time.monotonic() < until
            assert (await scene.agent.ask(0, "good", BODY))[0] == 200
            await asyncio.sleep(0.1)
        before = len(replica.begun)
        assert (await scene.agent.ask(0, "bad", BAD))[0] == 400
        assert len(replica.begun) == before


@pytest.mark.parametrize("ours", [False, True])
async def test_gateway_checks_bodies_if_replica_does_not_or_extra_fields_are_set(
    scene: Scene, ours: bool
) -> None:
    spec = {"access": {"extraFields": ["seed_of_tomorrow"]}} if ours else {}
    async with ReplicaDoor(port=REPLICA_PORT) if ours else FakeServe(port=REPLICA_PORT) as replica:
        await awake(scene, **spec)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            assert (await scene.agent.ask(0, "good", BODY))[0] == 200
            assert (await scene.agent.ask(0, "bad", BAD))[0] == 400
        paths = replica.paths if isinstance(replica, ReplicaDoor) else replica.paths.values()
        assert CHAT in paths
        assert fields.guard_path() + CHAT not in paths
