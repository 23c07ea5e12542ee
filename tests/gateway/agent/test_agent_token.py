"""A gateway proves to the operator who it is, by the real API server's word."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config

from cluster import ControlPlane
from daybreak.api.common import names
from daybreak.gateways.identity import GatewayIdentity
from daybreak.gateways.listener import LINE_LIMIT, GatewayListener
from daybreak.kube.client import Api
from tests.gateway.scene import Scene

# One control plane for all of them.
pytestmark = pytest.mark.xdist_group("gateway-agent")


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[Api]:
    """Yield the operator's API client."""
    configuration = Configuration()
    await load_kube_config(  # type: ignore[no-untyped-call]
        config_file=str(plane.kubeconfig), client_configuration=configuration, persist_config=False
    )
    made = Api(configuration)
    yield made
    await made.close()


def account(scene: Scene, name: str, pod: str) -> str:
    """Make a ServiceAccount and a pod of it. Returns the pod's uid."""
    metadata = {"name": name, "namespace": scene.admin.namespace}
    scene.admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    spec = {"serviceAccountName": name, "containers": [{"name": "a", "image": "a"}]}
    made = scene.admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec})
    return str(made["metadata"]["uid"])


def token(scene: Scene, name: str, pod: str, uid: str, audience: str = names.OPERATOR_AUDIENCE) -> str:
    """Return a token as the kubelet asks for one."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
    spec = {"audiences": [audience], "expirationSeconds": 3600, "boundObjectRef": bound}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = scene.admin.path("ServiceAccount", name) + "/token"
    return str(scene.admin.request("POST", path, body)["status"]["token"])


async def test_only_token_of_gateway_pod_is_accepted(scene: Scene, api: Api) -> None:
    own = account(scene, names.GATEWAY, "gateway-1")
    other = account(scene, "other", "other-1")
    namespace, identity = scene.admin.namespace, GatewayIdentity(api)
    good = token(scene, names.GATEWAY, "gateway-1", own)
    assert await identity.prove(namespace, own, good)
    # Neither for another pod, nor in another namespace.
    assert not await identity.prove(namespace, other, good)
    assert not await identity.prove("elsewhere", own, good)
    # Nor of another account, or for another audience: the API server's own is one.
    assert not await identity.prove(namespace, other, token(scene, "other", "other-1", other))
    wrong = token(scene, names.GATEWAY, "gateway-1", own, "https://kubernetes.default.svc.cluster.local")
    assert not await identity.prove(namespace, own, wrong)
    for nonsense in ("", "nonsense", good + "x", "x" * 100_000):
        assert not await identity.prove(namespace, own, nonsense)


async def test_gateway_report_is_received_after_valid_token(scene: Scene, api: Api) -> None:
    uid = account(scene, names.GATEWAY, "gateway-1")
    identity, requested = GatewayIdentity(api), 0

    async def prove(shown: str) -> bool:
        nonlocal requested
        requested += 1
        return await identity.prove(scene.admin.namespace, uid, shown)

    def reported(_: Any) -> None:
        """Ignore the report."""

    url = f"http://127.0.0.1:{scene.agent.http_port}/state"
    async with aiohttp.ClientSession(read_bufsize=LINE_LIMIT) as session:
        listener = GatewayListener(url, session, reported, prove)
        async with asyncio.timeout(60):
            while requested < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert not listener.received
        write_whole(scene.agent.token_file, token(scene, names.GATEWAY, "gateway-1", uid))
        async with asyncio.timeout(60):
            while not listener.received:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await listener.close()


def write_whole(file: Path, text: str) -> None:
    """Write a file atomically, as the kubelet does: no reader sees half of it."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text + "\n")
    fresh.rename(file)
