"""The gateway of a namespace: made with the first LLMService, removed with the last one, never in between."""

import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config

from cluster import ControlPlane
from daybreak.api.common import names
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.gateways.gateway_controller import GatewayController
from daybreak.gateways.objects import gateway
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier
from daybreak.manifests import resources
from daybreak.manifests.keys import gateway_key
from daybreak.platform import Platform
from tests.api.admin import APPLY, MERGE, Admin, Refused, eventually
from tests.api.objects.llmservice import tiny
from tests.api.objects.sleeper import GATEWAY
from tests.api.operator_process import OperatorProcess

Start = Callable[..., OperatorProcess]
PLATFORM = Platform(
    ray_image="ray", ray_cpu_image="ray-cpu", gateway_image=GATEWAY["GATEWAY_IMAGE"], gateway_replicas=2
)


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[Api]:
    """Yield the operator's client."""
    configuration = Configuration()
    await load_kube_config(  # type: ignore[no-untyped-call]
        str(plane.kubeconfig), client_configuration=configuration, persist_config=False
    )
    client = Api(configuration)
    yield client
    await client.close()


async def test_gateway_is_kept_for_service_not_yet_reported_by_watch(admin: Admin, api: Api) -> None:
    """The first test here: no operator runs yet that could remove what has no service for a moment."""
    cache = _knows_the_gateway_only(admin)
    admin.create(tiny())
    reconciler = GatewayController(api, cache, [LLM_SERVICES], Applier(api, cache), PLATFORM)
    await reconciler.reconcile(gateway_key(admin.namespace).key)
    assert not any(each["metadata"].get("deletionTimestamp") for each in (_whole(admin) or {}).values())
    assert _whole(admin)

    admin.delete("LLMService", "tiny")
    for _ in range(10):
        for live in filter(None, _live(admin).values()):
            cache.put(resources.of(live), live)
        # A controller speaks of the Deployment at the same time: then the version is another one.
        with contextlib.suppress(ApiError):
            await reconciler.reconcile(gateway_key(admin.namespace).key)
            break
    assert not any(_live(admin).values())


def test_gateway_exists_from_first_to_last_service(admin: Admin, gated: OperatorProcess) -> None:
    admin.create(tiny("one"))
    made = eventually("the gateway", lambda: _whole(admin))
    deployment = next(each for each in made.values() if each["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == PLATFORM.gateway_replicas
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert [each["image"] for each in containers] == [PLATFORM.gateway_image] * 2
    admin.create(tiny("two"))
    eventually("the second one's Service", lambda: admin.get("Service", "two"))
    assert _ports(admin, "one") != _ports(admin, "two")

    admin.delete("LLMService", "one")
    eventually("its Service gone", lambda: admin.get("Service", "one") is None)
    # The next one is looked at later than the gateway would be.
    admin.create(tiny("three"))
    eventually("the third one's Service", lambda: admin.get("Service", "three"))
    assert _uids(_whole(admin)) == _uids(made)

    for name in ("two", "three"):
        admin.delete("LLMService", name)
    eventually("nothing of it is left", lambda: not any(_live(admin).values()))


def test_each_namespace_has_its_own_gateway(
    plane: ControlPlane, admin: Admin, gated: OperatorProcess
) -> None:
    other = Admin(plane.kubeconfig).within(f"other-{uuid.uuid4().hex[:8]}")
    other.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other.namespace}})
    admin.create(tiny())
    eventually("the gateway", lambda: _whole(admin))
    assert not any(_live(other).values())
    other.create(tiny())
    eventually("the other one's gateway", lambda: _whole(other))
    other.delete("LLMService", "tiny")
    eventually("the other one's gone", lambda: not any(_live(other).values()))
    assert _whole(admin)
    other.delete("Namespace", other.namespace)


CHANGES: dict[str, dict[str, Any]] = {
    "ServiceAccount": {"automountServiceAccountToken": True},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]},
    "RoleBinding": {"subjects": []},
    "NetworkPolicy": {"spec": {"ingress": []}},
    "PodDisruptionBudget": {"spec": {"maxUnavailable": 2}},
    "Deployment": {"spec": {"template": {"spec": {"serviceAccountName": "default"}}}},
    "Service": {"spec": {"selector": {"app": "somebody-elses"}}},
}


def test_changed_or_deleted_gateway_objects_are_restored(admin: Admin, gated: OperatorProcess) -> None:
    admin.create(tiny())
    before = eventually("the gateway", lambda: _whole(admin))
    for name, live in before.items():
        admin.request("PATCH", _path(live), CHANGES[live["kind"]], MERGE)
        eventually(f"{name} repaired", partial(_is_as, admin, live))
    assert _uids(_whole(admin)) == _uids(before), "in place, not made anew"
    for name, live in before.items():
        admin.raw("DELETE", _path(live))
        eventually(f"{name} made again", partial(_is_another, admin, live))


def test_config_map_of_namespace_changes_gateway_settings(admin: Admin, gated: OperatorProcess) -> None:
    admin.create(tiny())
    eventually("the gateway", lambda: _whole(admin))

    def spec() -> dict[str, Any]:
        return dict(admin.get("Deployment", names.GATEWAY)["spec"])

    def says(text: str) -> dict[str, Any]:
        metadata = {"name": names.GATEWAY, "namespace": admin.namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"gateway.yaml": text}}

    admin.create(says("{replicas: 3, priorityClassName: system-cluster-critical}"))
    eventually("three pods", lambda: spec()["replicas"] == 3)
    assert spec()["template"]["spec"]["priorityClassName"] == "system-cluster-critical"
    before = admin.get("Deployment", names.GATEWAY)["metadata"]["generation"]

    admin.merge("ConfigMap", names.GATEWAY, says("replicas: none"))
    refused = eventually("an event", lambda: _events(admin))
    assert "gateway.replicas" in refused[0]["note"]
    assert refused[0]["regarding"]["name"] == names.GATEWAY
    assert admin.get("Deployment", names.GATEWAY)["metadata"]["generation"] == before, "it stays as it is"

    admin.merge("ConfigMap", names.GATEWAY, says("{nodeSelector: {a: not a label's value}}"))
    eventually("another event", lambda: len(_events(admin)) == 2)
    assert admin.get("Deployment", names.GATEWAY)["metadata"]["generation"] == before

    admin.delete("ConfigMap", names.GATEWAY)
    eventually("the installation's", lambda: spec()["replicas"] == PLATFORM.gateway_replicas)
    assert "priorityClassName" not in spec()["template"]["spec"]


def test_existing_unmanaged_service_account_is_unchanged(admin: Admin, gated: OperatorProcess) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": names.GATEWAY}}
    theirs = admin.create(account)
    admin.create(tiny())
    deployment = f"Deployment/{names.GATEWAY}"
    eventually("the rest", lambda: _live(admin)[deployment])
    assert _content(admin.get("ServiceAccount", names.GATEWAY)) == _content(theirs)
    admin.delete("LLMService", "tiny")
    eventually("the rest gone", lambda: _live(admin)[deployment] is None)
    assert admin.get("ServiceAccount", names.GATEWAY)["metadata"]["uid"] == theirs["metadata"]["uid"]


def test_gateway_is_unchanged_after_operator_restart(admin: Admin, alone: Start) -> None:
    first = alone("operator", **GATEWAY)
    first.start()
    admin.create(tiny())
    made = eventually("the gateway", lambda: _whole(admin))
    first.kill()
    for _ in range(2):
        second = alone("operator", **GATEWAY)
        second.start()
        second.wait_ready()
        eventually("looked at", partial(_has_looked, second))
        assert second.metric("daybreak_writes_total", kind="Deployment") == 0
        now = _whole(admin) or {}
        assert _uids(now) == _uids(made)
        # Their controllers may write the status of some. The operator of the other tests is here too, and
        # has the policy name the namespace in which it runs itself.
        same = [name for name, each in made.items() if each["kind"] != "NetworkPolicy"]
        assert [_content(now[name]) for name in same] == [_content(made[name]) for name in same]
        second.kill()


def test_gateway_objects_and_pods_are_accepted_in_restricted_namespace(plane: ControlPlane) -> None:
    name = f"restricted-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    everywhere = Admin(plane.kubeconfig)
    everywhere.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    admin = everywhere.within(name)
    query = {"fieldValidation": "Strict", "dryRun": "All"}
    for manifest in gateway(name, [LLM_SERVICES], PLATFORM):
        options = {"fieldManager": names.FIELD_MANAGER, "force": "true", **query}
        admin.request("PATCH", _path(manifest), manifest, APPLY, query=options)
    template = gateway(name, [LLM_SERVICES], PLATFORM)[-1]["spec"]["template"]
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": "a-pod"},
        "spec": {**template["spec"]},
    }
    # It must exist for a pod to be taken.
    admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": names.GATEWAY}})
    admin.request("POST", admin.path("Pod"), pod, query=query)
    pod["spec"]["securityContext"] = {}
    with pytest.raises(Refused, match="violates PodSecurity"):
        admin.request("POST", admin.path("Pod"), pod, query=query)
    everywhere.delete("Namespace", name)


def _events(admin: Admin) -> list[Any]:
    """Return events about rejected settings."""
    return [each for each in admin.list("Event") if each["reason"] == "InvalidGatewaySettings"]


def _is_as(admin: Admin, desired: Any) -> bool:
    return bool(_content(_found(admin, desired)) == _content(desired))


def _is_another(admin: Admin, before: Any) -> bool:
    found = _found(admin, before)
    return bool(found and found["metadata"]["uid"] != before["metadata"]["uid"])


def _has_looked(process: OperatorProcess) -> bool:
    return process.metric("daybreak_reconciles_total") >= 2


def _knows_the_gateway_only(admin: Admin) -> Cache:
    """Return a cache in the state of a new operator: one watch has delivered, the other has not."""
    cache = Cache()
    for manifest in gateway(admin.namespace, [LLM_SERVICES], PLATFORM):
        resource = resources.of(manifest)
        cache.put(resource, admin.request("POST", resource.path(admin.namespace), manifest))
    return cache


def _path(manifest: Any) -> str:
    metadata = manifest["metadata"]
    return resources.of(manifest).path(metadata["namespace"], metadata["name"])


def _found(admin: Admin, manifest: Any) -> Any:
    """Return the current object, or None."""
    try:
        return admin.request("GET", _path(manifest))
    except Refused as error:
        if error.status != 404:
            raise
        return None


def _live(admin: Admin) -> dict[str, Any]:
    """Return each current object of the namespace's gateway, or None."""
    return {
        f"{manifest['kind']}/{manifest['metadata']['name']}": _found(admin, manifest)
        for manifest in gateway(admin.namespace, [LLM_SERVICES], PLATFORM)
    }


def _whole(admin: Admin) -> dict[str, Any] | None:
    """Return the gateway's objects, or None if one is missing."""
    found = _live(admin)
    return found if all(found.values()) else None


def _uids(objects: dict[str, Any] | None) -> dict[str, str]:
    return {name: each["metadata"]["uid"] for name, each in (objects or {}).items()}


def _content(live: Any) -> Any:
    if not live:
        return None
    metadata = live["metadata"]
    # A Deployment's controller counts its changes there.
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop("deployment.kubernetes.io/revision", None)
    kept = {"labels": metadata.get("labels"), "annotations": annotations}
    return {"metadata": kept} | {key: live[key] for key in live if key not in ("metadata", "status")}


def _ports(admin: Admin, service: str) -> list[int]:
    return [port["targetPort"] for port in admin.get("Service", service)["spec"]["ports"]]
