"""Gateways of an installation that has turned them off: they go when no service needs them, not before."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.objects.llmservice import tiny
from tests.api.objects.sleeper import GATEWAY, NAME, Sleeper
from tests.api.operator_process import OperatorProcess
from tests.api.playing.kuberay import play_pod

Start = Callable[..., OperatorProcess]
POD = "operator"
OBJECTS = {
    "Deployment": names.GATEWAY,
    "ServiceAccount": names.GATEWAY,
    "Role": names.GATEWAY,
    "RoleBinding": names.GATEWAY,
    "NetworkPolicy": names.GATEWAY,
    "PodDisruptionBudget": names.GATEWAY,
    "Service": names.ROUTER,
}


def there(admin: Admin) -> set[str]:
    """Return the kinds of the gateway's existing objects."""
    return {kind for kind, name in OBJECTS.items() if admin.get(kind, name)}


def leads_to_gateway(admin: Admin, name: str = NAME) -> bool:
    """Return True if the service's address leads to the gateway."""
    return bool(admin.get("Service", name)["spec"]["selector"] == names.gateway_selector())


@pytest.mark.parametrize("depth", ["Workers", "Cluster"])
def test_sleeping_service_is_woken_before_its_gateway_is_removed(
    depth: str, admin: Admin, sleeper: Sleeper, alone: Start, traffic: Path
) -> None:
    with alone(POD, PLAYED_TRAFFIC=str(traffic), **GATEWAY):
        sleeper.awake(sleep={"afterIdle": "1s", "depth": depth})
        eventually("the gateway", lambda: there(admin) == set(OBJECTS))
        sleeper.falls_asleep(depth)
        if depth == "Cluster":
            for each in admin.list("Pod"):
                admin.delete("Pod", each["metadata"]["name"])
        # An object of another owner, with a name like the gateway's.
        theirs = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "daybreak-gateways"}}
        admin.create(theirs)
        pod = f"{names.GATEWAY}-a"
        play_pod(admin, pod, names.gateway_labels(), conditions=[])
    sleeper.silent()

    with alone(POD, PLAYED_TRAFFIC=str(traffic)) as operator:
        # The service receives no request, and nothing sleeps in an installation without gateways.
        sleeper.reaches("Waking", "Closed", None)
        if depth == "Cluster":
            sleeper.starts("fghij")
        else:
            sleeper.scaled((1, 1))
        sleeper.kuberay.status(NAME, sleeper.cluster)
        # One that is new is not led to a gateway that goes.
        admin.create(tiny("second"))
        eventually("its address", lambda: admin.get("Service", "second"))
        assert not leads_to_gateway(admin, "second")
        time.sleep(3)
        assert leads_to_gateway(admin), "nobody else answers yet"
        assert there(admin) == set(OBJECTS)

        sleeper.answers()
        eventually("led to the Ray cluster", lambda: not leads_to_gateway(admin))
        selector = admin.get("Service", NAME)["spec"]["selector"]
        assert selector[names.RAY_CLUSTER_LABEL] == sleeper.cluster
        eventually("no new gateway pods", lambda: "Deployment" not in there(admin))
        # Its pods finish their streams: the objects that they need for that stay, and so do reports to them.
        time.sleep(3)
        assert there(admin) == {"ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"}
        assert sleeper.gate() == "Open"
        ingress = admin.get("NetworkPolicy", f"{NAME}-ray")["spec"]["ingress"]
        assert _askers(ingress, 8100) == [[{"podSelector": {"matchLabels": names.gateway_selector()}}]]
        assert [] in _askers(ingress, 8000), "and everybody comes by the address"

        admin.delete("Pod", pod)
        eventually("nothing is left", lambda: not there(admin))
        eventually("no gate", lambda: "gate" not in sleeper.status())
        ready = [each for each in sleeper.status()["conditions"] if each["type"] == "Ready"]
        assert ready[0]["status"] == "True"
        assert _askers(admin.get("NetworkPolicy", f"{NAME}-ray")["spec"]["ingress"], 8100) == []
        assert admin.get("ServiceAccount", "daybreak-gateways")
        assert not operator.errors
    admin.delete("LLMService", "second")


def test_gateway_without_services_is_removed(admin: Admin, alone: Start) -> None:
    with alone(POD, **GATEWAY) as first:
        admin.create(tiny())
        eventually("the gateway", lambda: there(admin) == set(OBJECTS))
        first.kill()
        admin.delete("LLMService", NAME)
        eventually("its address gone", lambda: admin.get("Service", NAME) is None)
    with alone(POD):
        eventually("nothing is left", lambda: not there(admin))


def _askers(ingress: list[dict[str, Any]], port: int) -> list[list[Any]]:
    """Return clients that may reach a port, besides the service's pods, rule by rule; empty: all clients."""
    return [
        [peer for peer in rule.get("from", []) if "namespaceSelector" not in peer]
        for rule in ingress
        if any(each["port"] == port for each in rule.get("ports", ()))
    ]
