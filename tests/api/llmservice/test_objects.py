"""Objects of an LLMService on a real API server: creation, drift, names already in use, deletion."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.api.admin import OWNED, Admin, eventually
from tests.api.objects.llmservice import NAMES, condition, everything, model, settled, tiny
from tests.api.operator_process import OperatorProcess

WRITES_MOST = 12
"""Maximum number of the operator's writes for one service; `bench.operator.reconcile` counts them too."""


def test_owned_objects_are_created_with_owner_reference(admin: Admin, operator: OperatorProcess) -> None:
    before = _at_rest(operator)
    made = admin.create(tiny())
    objects = eventually("all objects", lambda: everything(admin))
    for found in objects.values():
        [owner] = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("LLMService", made["metadata"]["uid"])
        assert owner["controller"]
        managers = {entry["manager"] for entry in found["metadata"].get("managedFields", ())}
        assert "daybreak-operator" in managers
    service = eventually("a status", lambda: settled(admin))
    assert service["status"]["url"] == f"http://tiny.{admin.namespace}.svc/v1"
    assert _writes(operator) - before <= WRITES_MOST


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "account": ("ServiceAccount", {"automountServiceAccountToken": True}),
    "policy": ("NetworkPolicy", {"spec": {"ingress": [{}]}}),
    "budget": ("PodDisruptionBudget", {"spec": {"minAvailable": 0}}),
    "selector": ("Service", {"spec": {"selector": {"app": "somebody-elses"}}}),
    "port": ("Service", {"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 9}]}}),
    "serve": ("RayService", {"spec": {"serveConfigV2": "applications: []"}}),
    "groups": ("RayService", {"spec": {"rayClusterConfig": {"workerGroupSpecs": []}}}),
    "label": ("Service", {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}),
    "owner label": ("NetworkPolicy", {"metadata": {"labels": {"daybreak.dev/owner-name": "another"}}}),
    "owner": ("PodDisruptionBudget", {"metadata": {"ownerReferences": None}}),
    "digest": ("RayService", {"metadata": {"annotations": {"daybreak.dev/applied": "0"}}}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_by_other_client_is_reverted_in_place(
    change: str, admin: Admin, operator: OperatorProcess
) -> None:
    admin.create(tiny())
    before = eventually("all objects", lambda: everything(admin))
    kind, patch = CHANGES[change]
    admin.merge(kind, NAMES[kind], patch)

    def repaired() -> bool:
        found = admin.get(kind, NAMES[kind])
        return bool(found and _content(found) == _content(before[kind]))

    eventually(f"{kind} repaired", repaired)
    uid = before[kind]["metadata"]["uid"]
    assert admin.get(kind, NAMES[kind])["metadata"]["uid"] == uid, "repaired in place, not made anew"


@pytest.mark.parametrize("kind", OWNED)
def test_deleted_object_is_recreated(kind: str, admin: Admin, operator: OperatorProcess) -> None:
    admin.create(tiny())
    before = eventually("all objects", lambda: everything(admin))
    admin.delete(kind, NAMES[kind])

    def anew() -> bool:
        found = admin.get(kind, NAMES[kind])
        return bool(found and found["metadata"]["uid"] != before[kind]["metadata"]["uid"])

    eventually(f"{kind} made again", anew)


def test_labels_and_annotations_of_other_clients_are_kept(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(tiny())
    eventually("all objects", lambda: everything(admin))
    patch = {"metadata": {"annotations": {"team": "search"}, "labels": {"cost-center": "7"}}}
    admin.merge("Service", "tiny", patch)
    admin.merge("LLMService", "tiny", {"spec": {"models": [model(replicas={"min": 2})]}})

    def changed() -> bool:
        budget = admin.get("PodDisruptionBudget", "tiny-ray")
        return bool(budget["spec"]["minAvailable"] == 2)

    eventually("the new spec applied", changed)
    metadata = admin.get("Service", "tiny")["metadata"]
    assert metadata["annotations"]["team"] == "search"
    assert metadata["labels"]["cost-center"] == "7"


@pytest.fixture
def by_kind(admin: Admin) -> Iterator[dict[str, Admin]]:
    """Yield a namespace for each owned kind: the operator requeues after 15 s, for all of them at once."""
    found = {kind: admin.within(f"{admin.namespace}-{kind.lower()}") for kind in OWNED}
    for hands in found.values():
        hands.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": hands.namespace}})
    yield found
    for hands in found.values():
        hands.delete("Namespace", hands.namespace)


def test_existing_unmanaged_object_is_not_adopted(
    by_kind: dict[str, Admin], operator: OperatorProcess
) -> None:
    theirs = {kind: hands.create(_foreign(kind)) for kind, hands in by_kind.items()}
    for hands in by_kind.values():
        hands.create(tiny())
    for kind, hands in by_kind.items():
        service = eventually(f"the name of the {kind} taken", partial(_stalled, hands))
        assert condition(service, "Stalled")["reason"] == "NameConflict"
        assert f"{kind}/{NAMES[kind]}" in condition(service, "Stalled")["message"]
        found = hands.get(kind, NAMES[kind])
        assert _content(found) == _content(theirs[kind])
        managers = {entry["manager"] for entry in found["metadata"].get("managedFields", ())}
        assert "daybreak-operator" not in managers

    for kind, hands in by_kind.items():
        hands.delete(kind, NAMES[kind])
    for kind, hands in by_kind.items():
        eventually(f"the service goes on without the {kind}", partial(everything, hands))
        eventually(f"no longer stalled by the {kind}", partial(_goes_on, hands))


def test_orphaned_objects_are_adopted_by_recreated_service(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(tiny())
    before = eventually("all objects", lambda: everything(admin))
    admin.delete("LLMService", "tiny", policy="Orphan")
    eventually("the service gone", lambda: admin.get("LLMService", "tiny") is None)
    assert everything(admin) is not None
    again = admin.create(tiny())

    def taken() -> bool:
        found = everything(admin) or {}
        owners = [each["metadata"].get("ownerReferences") or [{}] for each in found.values()]
        return bool(found) and all(owner[0].get("uid") == again["metadata"]["uid"] for owner in owners)

    eventually("objects taken back", taken)
    after = everything(admin) or {}
    assert {kind: each["metadata"]["uid"] for kind, each in after.items()} == {
        kind: each["metadata"]["uid"] for kind, each in before.items()
    }


def test_service_deletion_removes_all_objects(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(tiny())
    eventually("all objects", lambda: everything(admin))
    admin.delete("LLMService", "tiny")
    eventually("everything gone", lambda: not any(admin.get(kind, name) for kind, name in NAMES.items()))
    # What comes late must not bring it back.
    done = operator.metric("daybreak_reconciles_total")
    admin.create(tiny("other"))
    eventually("another service", lambda: admin.get("RayService", "other"))
    eventually("a reconcile done", lambda: operator.metric("daybreak_reconciles_total") > done)
    assert not any(admin.get(kind, name) for kind, name in NAMES.items())


def test_objects_are_not_recreated_during_foreground_deletion(
    admin: Admin, operator: OperatorProcess
) -> None:
    admin.create(tiny())
    eventually("all objects", lambda: everything(admin))
    eventually("a status", lambda: settled(admin))
    before = {kind: operator.metric("daybreak_writes_total", kind=kind) for kind in NAMES}
    admin.delete("LLMService", "tiny", policy="Foreground")
    eventually("the service gone", lambda: admin.get("LLMService", "tiny") is None)
    assert {kind: operator.metric("daybreak_writes_total", kind=kind) for kind in NAMES} == before
    eventually("everything gone", lambda: not any(admin.get(kind, name) for kind, name in NAMES.items()))


def test_service_recreated_immediately_gets_its_own_objects(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(tiny())
    eventually("all objects", lambda: everything(admin))
    admin.delete("LLMService", "tiny")
    again = admin.create(tiny())

    def its_own() -> bool:
        found = everything(admin) or {}
        return bool(found) and all(
            each["metadata"]["ownerReferences"][0]["uid"] == again["metadata"]["uid"]
            for each in found.values()
        )

    eventually("objects of the new service", its_own)


def _at_rest(operator: OperatorProcess) -> float:
    """Return the number of writes, once the services of previous tests cause no further writes."""
    last = -1.0
    until = time.monotonic() + 60
    while (now := _writes(operator)) != last:
        assert time.monotonic() < until, "it does not come to rest"
        last = now
        time.sleep(2)
    return now


def _writes(operator: OperatorProcess) -> float:
    """Return the writes that the operator has sent, its lease aside."""
    verbs = ("apply", "create", "update", "patch", "delete")
    sent = sum(operator.metric("daybreak_api_requests_total", verb=verb) for verb in verbs)
    return sent - sum(
        operator.metric("daybreak_api_requests_total", verb=verb, resource="leases") for verb in verbs
    )


def _stalled(admin: Admin) -> Any:
    service = admin.get("LLMService", "tiny")
    return service if condition(service, "Stalled").get("status") == "True" else None


def _goes_on(admin: Admin) -> bool:
    return not _stalled(admin)


def _content(found: Any) -> Any:
    metadata = found["metadata"]
    kept = {name: metadata.get(name) for name in ("labels", "annotations", "ownerReferences")}
    return {"metadata": kept} | {key: found[key] for key in found if key not in ("metadata", "status")}


def _foreign(kind: str) -> dict[str, Any]:
    specs: dict[str, tuple[str, dict[str, Any]]] = {
        "ServiceAccount": ("v1", {}),
        "NetworkPolicy": ("networking.k8s.io/v1", {"spec": {"podSelector": {"matchLabels": {"app": "x"}}}}),
        "PodDisruptionBudget": ("policy/v1", {"spec": {"selector": {"matchLabels": {"app": "x"}}}}),
        "Service": ("v1", {"spec": {"selector": {"app": "x"}, "ports": [{"port": 1}]}}),
        "RayService": ("ray.io/v1", {"spec": {"rayClusterConfig": {"headGroupSpec": _HEAD}}}),
    }
    version, rest = specs[kind]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": NAMES[kind]}} | rest


_HEAD = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "ray-head", "image": "x"}]}}}
