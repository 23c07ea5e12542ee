"""The gateway of a namespace: applied and deleted objects, by the known LLMServices."""

from dataclasses import replace
from typing import Any, cast

import pytest

from daybreak.api.common import names
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.gates.gateway_rejected import rejection
from daybreak.gateways import gateway_controller
from daybreak.gateways.gateway_controller import (
    GATHER_SECONDS,
    LEAVING_SECONDS,
    UNTOLD_SECONDS,
    GatewayController,
)
from daybreak.gateways.objects import gateway
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey, gateway_key
from daybreak.manifests.resources import PODS, SERVICES, of
from daybreak.platform import Platform

PLATFORM = Platform(ray_image="ray", ray_cpu_image="ray-cpu", gateway_image="gateway:1")
METADATA = {"namespace": "ns", "resourceVersion": "1"}

HERE = gateway_key("ns").key


class Api:
    """Fake API server with or without LLMServices; with None, every request fails."""

    def __init__(self, items: list[Any] | None) -> None:
        self._items = items

    async def request(self, verb: str, *_: Any, **__: Any) -> dict[str, Any]:
        """Return the list."""
        if self._items is None:
            raise ApiError(503, "ServiceUnavailable", "away")
        return {"items": self._items}


class Applier:
    """Fake that records its calls."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.secrets: set[str] = set()
        """Secrets that the Deployment mounts."""
        self.egress: list[Any] = []
        self.deleted: list[str] = []

    async def apply(self, desired: Any, live: Any) -> bool:
        """Record the call."""
        self.applied.append(desired["kind"])
        if desired["kind"] == "Deployment":
            volumes = desired["spec"]["template"]["spec"]["volumes"]
            self.secrets = {each["secret"]["secretName"] for each in volumes if "secret" in each}
            self.secrets.remove(names.SHARED_KEYS)
        if desired["kind"] == "NetworkPolicy":
            self.egress = desired["spec"].get("egress", [])
        return True

    async def delete(self, live: Any) -> None:
        """Record the call."""
        self.deleted.append(live["kind"])


def service(name: str, *secrets: str) -> dict[str, Any]:
    """Return an LLMService whose API keys are in these Secrets."""
    keys = [{"secretRef": {"name": secret, "key": "key"}} for secret in secrets]
    return {"metadata": {**METADATA, "name": name, "uid": name}, "spec": {"access": {"apiKeys": keys}}}


def reconciler(
    applier: Applier, items: list[Any] | None, *, services: int, there: bool, mounted: tuple[str, ...] = ()
) -> Any:
    """Return a reconciler with `services` LLMServices, and with the gateway if it exists."""
    cache = Cache()
    for number in range(services):
        cache.put(LLM_SERVICES, service(f"s{number}", f"keys-of-{number}"))
    for manifest in gateway("ns", [LLM_SERVICES], PLATFORM, mounted) if there else ():
        kept = {**manifest["metadata"], "uid": manifest["kind"], "resourceVersion": "1"}
        cache.put(of(manifest), {**manifest, "metadata": kept})
    api: Any = Api(items)
    noted: Any = applier
    return GatewayController(api, cache, [LLM_SERVICES], noted, PLATFORM)


async def test_first_service_creates_gateway_without_api_request() -> None:
    applier = Applier()
    assert await reconciler(applier, None, services=1, there=False).reconcile(HERE) is None
    assert applier.applied[-1] == "Deployment", "what its pods need comes first"
    assert applier.deleted == []


async def test_gateway_is_deleted_without_services() -> None:
    applier = Applier()
    await reconciler(applier, [], services=0, there=True).reconcile(HERE)
    assert sorted(applier.deleted) == sorted(each["kind"] for each in gateway("ns", [LLM_SERVICES], PLATFORM))


async def test_gateway_is_unchanged_while_services_are_not_in_cache() -> None:
    applier = Applier()
    found = reconciler(applier, [{"metadata": {"name": "s"}}], services=0, there=True)
    assert await found.reconcile(HERE) == UNTOLD_SECONDS
    assert (applier.applied, applier.deleted) == ([], [])


async def test_unreachable_api_server_does_not_delete_gateway() -> None:
    applier = Applier()
    with pytest.raises(ApiError):
        await reconciler(applier, None, services=0, there=True).reconcile(HERE)
    assert applier.deleted == []


async def test_secret_is_unmounted_only_if_no_listed_service_needs_it() -> None:
    """Two services are known, and the gateway mounts the Secrets of four."""
    applier, mounted = Applier(), ("keys-of-0", "keys-of-1", "keys-of-late", "keys-of-gone")
    listed = [service("s0", "keys-of-0"), service("late", "keys-of-late")]
    await reconciler(applier, listed, services=2, there=True, mounted=mounted).reconcile(HERE)
    assert applier.secrets == {"keys-of-0", "keys-of-1", "keys-of-late"}


async def test_unreachable_api_server_does_not_unmount_secret() -> None:
    applier = Applier()
    with pytest.raises(ApiError):
        await reconciler(applier, None, services=1, there=True, mounted=("other",)).reconcile(HERE)
    assert applier.applied == []


async def test_secrets_are_added_without_api_request() -> None:
    applier = Applier()
    await reconciler(applier, None, services=2, there=True, mounted=("keys-of-1",)).reconcile(HERE)
    assert applier.secrets == {"keys-of-0", "keys-of-1"}


async def test_external_model_of_route_adds_secrets_and_egress() -> None:
    applier, cache = Applier(), Cache()
    cache.put(LLM_SERVICES, service("s0"))
    external = {
        "url": "https://api.example.com:8443/v1",
        "model": "big",
        "apiKeySecretRef": {"name": "account", "key": "key"},
        "caSecretRef": {"name": "authority", "key": "ca"},
    }
    for name, spec in {"one": {"externalFallback": external}, "two": {}}.items():
        cache.put(LLM_ROUTES, {"metadata": {**METADATA, "name": name, "uid": name}, "spec": spec})
    found = GatewayController(
        cast(Any, Api(None)),
        cache,
        [LLM_SERVICES],
        cast(Any, applier),
        replace(PLATFORM, network_policy=True, gateway_egress=True),
        routes=[LLM_ROUTES],
    )
    assert found.concerned(LLM_ROUTES, OwnerKey("LLMRoute", "ns", "one")) == (HERE, GATHER_SECONDS)
    await found.reconcile(HERE)
    assert applier.secrets == {"account", "authority"}
    assert applier.egress[-1]["ports"] == [{"protocol": "TCP", "port": 8443}]


async def test_reconcile_returns_requeue_delay_of_reports() -> None:
    """The queue keeps one time per key, regardless of the cause of the last reconcile."""

    class Reports:
        def refresh(self, namespace: str) -> float | None:
            return 42.0

        def short(self, namespace: str) -> frozenset[str]:
            return frozenset()

    cache, api, reports, noted = Cache(), cast(Any, Api([])), cast(Any, Reports()), cast(Any, Applier())
    found = GatewayController(api, cache, [LLM_SERVICES], noted, PLATFORM, reports)
    assert await found.reconcile(HERE) == 42.0


async def test_nearly_full_pod_causes_one_event_until_it_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[str, str]] = []

    async def emit(api: Any, resource: Any, manifest: Any, *, reason: str, **_: Any) -> None:
        events.append((manifest["metadata"]["name"], reason))

    monkeypatch.setattr(gateway_controller, "emit", emit)

    class Reports:
        now: frozenset[str] = frozenset()

        def refresh(self, namespace: str) -> None:
            """Do nothing: no pod is being deleted."""

        def short(self, namespace: str) -> frozenset[str]:
            return self.now

    cache, reports = Cache(), Reports()
    for name in ("one", "two"):
        metadata = {**METADATA, "name": name, "uid": f"uid-{name}", "labels": names.gateway_labels()}
        cache.put(PODS, {"metadata": metadata})
    api, noted = cast(Any, Api([])), cast(Any, Applier())
    found = GatewayController(api, cache, [LLM_SERVICES], noted, PLATFORM, cast(Any, reports))
    counts = []
    for short in (False, True, True, False, True):
        reports.now = frozenset({"uid-one"} if short else ())
        await found.reconcile(HERE)
        counts.append(len(events))
    assert counts == [0, 1, 1, 1, 2]
    assert set(events) == {("one", "NearlyFull")}


class Reports:
    """Fake reports of a namespace with or without running gateway pods."""

    def __init__(self, *, run: bool) -> None:
        self.run = run
        self.reported: list[str] = []
        self.policies_enforced: bool | None = None

    def refresh(self, namespace: str) -> None:
        """Do nothing: no pod is being deleted."""

    def short(self, namespace: str) -> frozenset[str]:
        """Return no pods: none is nearly full."""
        return frozenset()

    def enforced(self, namespace: str) -> bool | None:
        """Return the value that the test has set."""
        return self.policies_enforced

    def runs(self, namespace: str) -> bool:
        """Return the preset value."""
        return self.run

    def remains(self, namespace: str) -> bool:
        """Return True if gateway pods run."""
        return self.run

    def notify(self, namespace: str) -> None:
        """Record the call."""
        self.reported.append(namespace)


async def test_workloads_are_reconciled_when_pod_rejection_starts_and_ends() -> None:
    cache, reports = Cache(), Reports(run=True)
    cache.put(LLM_SERVICES, service("s0"))
    [deployment] = [
        each for each in gateway("ns", [LLM_SERVICES], PLATFORM, ["keys"]) if each["kind"] == "Deployment"
    ]
    api, noted = cast(Any, Api([])), cast(Any, Applier())
    found = GatewayController(api, cache, [LLM_SERVICES], noted, PLATFORM, cast(Any, reports))
    failed = {"type": "ReplicaFailure", "status": "True", "message": "pods are forbidden: quota"}
    counts = []
    for version, conditions in enumerate(([], [failed], [failed], [])):
        metadata = {**deployment["metadata"], "uid": "d", "resourceVersion": str(version + 1)}
        cache.put(of(deployment), {**deployment, "metadata": metadata, "status": {"conditions": conditions}})
        await found.reconcile(HERE)
        counts.append(len(reports.reported))
    assert counts == [0, 1, 1, 2]


@pytest.mark.parametrize(("rendered", "posted"), [(True, [0, 0, 1, 1, 1, 1]), (False, [0] * 6)])
async def test_unenforced_network_policies_cause_one_event(
    monkeypatch: pytest.MonkeyPatch, rendered: bool, posted: list[int]
) -> None:
    events: list[tuple[str, str, str]] = []

    async def emit(api: Any, resource: Any, manifest: Any, *, reason: str, **_: Any) -> None:
        events.append((resource.kind, manifest["metadata"]["name"], reason))

    monkeypatch.setattr(gateway_controller, "emit", emit)
    cache, reports = Cache(), Reports(run=True)
    cache.put(LLM_SERVICES, service("s0"))
    platform = replace(PLATFORM, network_policy=rendered)
    [deployment] = [
        each for each in gateway("ns", [LLM_SERVICES], platform, ["keys"]) if each["kind"] == "Deployment"
    ]
    cache.put(of(deployment), {**deployment, "metadata": {**deployment["metadata"], "uid": "d"}})
    api, noted = cast(Any, Api([])), cast(Any, Applier())
    found = GatewayController(api, cache, [LLM_SERVICES], noted, platform, cast(Any, reports))
    counts = []
    for enforced in (None, True, False, False, True, False):
        reports.policies_enforced = enforced
        await found.reconcile(HERE)
        counts.append(len(events))
    assert counts == posted
    expected = {("Deployment", "daybreak-gateway", "NetworkPoliciesNotEnforced")}
    assert set(events) == (expected if rendered else set())


def test_rejection_names_the_field() -> None:
    message = "failed quota: team: must specify limits.cpu for: agent"
    status = {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": message}]}
    assert rejection({"status": status}) == (
        f"{message}; set agentResources.limits.cpu of gateway.yaml in ConfigMap daybreak-gateway"
    )
    assert rejection(None) == ""
    assert rejection({"status": {"conditions": []}}) == ""


@pytest.mark.parametrize("through", [True, False])
@pytest.mark.parametrize("run", [True, False])
async def test_disabled_gateway_is_deleted_when_no_service_leads_to_it(through: bool, run: bool) -> None:
    """Whatever the LLMServices: what they are reached by is what counts."""
    applier, cache, reports = Applier(), Cache(), Reports(run=run)
    for manifest in gateway("ns", [LLM_SERVICES], PLATFORM):
        kept = {**manifest["metadata"], "uid": manifest["kind"], "resourceVersion": "1"}
        cache.put(of(manifest), {**manifest, "metadata": kept})
    copied = {"name": "copied", "labels": names.gateway_labels(), **METADATA, "uid": "copied"}
    cache.put(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": copied, "spec": {}})
    for name, leads in (("s0", False), ("s1", through)):
        cache.put(LLM_SERVICES, service(name))
        selector = names.gateway_selector() if leads else {names.RAY_CLUSTER_LABEL: "c"}
        labels = names.labels(name, "front")
        front = {"metadata": {**METADATA, "name": name, "uid": f"front-{name}", "labels": labels}}
        cache.put(SERVICES, {**front, "spec": {"selector": selector}})
    api, noted, received = cast(Any, Api([])), cast(Any, applier), cast(Any, reports)
    off = replace(PLATFORM, gateway_image="")
    found = GatewayController(api, cache, [LLM_SERVICES], noted, off, received)
    assert await found.reconcile(HERE) == LEAVING_SECONDS
    assert applier.applied == []
    first = {"Deployment", "PodDisruptionBudget", "Service"}
    last = {"ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"}
    assert sorted(applier.deleted) == sorted(set() if through else first if run else first | last)
    assert reports.reported == ([] if through or run else ["ns"])


async def test_namespace_without_services_and_gateway_needs_no_action() -> None:
    applier = Applier()
    await reconciler(applier, None, services=0, there=False).reconcile(HERE)
    assert (applier.applied, applier.deleted) == ([], [])


def test_gateway_objects_have_managed_by_label_and_no_owner() -> None:
    for manifest in gateway("ns", [LLM_SERVICES], PLATFORM):
        assert manifest["metadata"]["namespace"] == "ns"
        labels = manifest["metadata"]["labels"]
        assert names.labelled_owner(labels) == ""
        assert labels[names.MANAGED_BY_LABEL] == names.MANAGED_BY
