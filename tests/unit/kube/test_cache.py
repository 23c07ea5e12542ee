"""The cache never goes backwards, indexes the objects of a service, and notifies the owner of a change."""

from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.resource import Resource
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.resources import NODES, PODS, SERVICES

TINY = OwnerKey("LLMService", "ns", "tiny")


def service(version: int, owner: str = "tiny", name: str = "front", **rest: Any) -> dict[str, Any]:
    """Return a Service that an LLMService controls."""
    reference = {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "name": owner,
        "uid": f"uid-{owner}",
        "controller": True,
    }
    metadata = {"name": name, "namespace": "ns", "uid": "7", "resourceVersion": str(version)}
    return {"metadata": {**metadata, "ownerReferences": [reference]}, **rest}


@pytest.fixture
def cache() -> Cache:
    """Return an empty cache."""
    return Cache()


@pytest.fixture
def reported(cache: Cache) -> list[OwnerKey]:
    """Return the list in which the cache's notifications are recorded."""
    received: list[OwnerKey] = []
    cache.subscribe(lambda _resource, key: received.append(key))
    return received


def test_older_and_equal_versions_are_ignored(cache: Cache, reported: list[OwnerKey]) -> None:
    assert cache.put(SERVICES, service(5, spec="new"))
    assert not cache.put(SERVICES, service(5, spec="same version"))
    assert not cache.put(SERVICES, service(4, spec="old"))
    found = cache.get(SERVICES, Key("ns", "front"))
    assert found is not None
    assert found["spec"] == "new"
    assert reported == [TINY]


def test_versions_are_compared_as_numbers(cache: Cache) -> None:
    cache.put(SERVICES, service(99))
    assert cache.put(SERVICES, service(100))


def test_late_answer_does_not_restore_deleted_object(cache: Cache, reported: list[OwnerKey]) -> None:
    cache.put(SERVICES, service(5))
    assert cache.drop(SERVICES, service(8))
    assert not cache.put(SERVICES, service(7))
    assert cache.get(SERVICES, Key("ns", "front")) is None
    assert cache.owned_by(TINY, SERVICES) == []
    assert cache.put(SERVICES, service(9)), "made again"
    assert reported == [TINY, TINY, TINY]


def test_late_deletion_does_not_remove_recreated_object(cache: Cache) -> None:
    cache.put(SERVICES, service(9))
    assert not cache.drop(SERVICES, service(8))
    assert cache.get(SERVICES, Key("ns", "front")) is not None


def test_deleted_object_is_lost_until_next_list(cache: Cache) -> None:
    front = Key("ns", "front")
    assert not cache.lost(SERVICES, front), "it never was there"
    cache.put(SERVICES, service(5))
    assert not cache.lost(SERVICES, front)
    cache.drop(SERVICES, service(8))
    assert cache.lost(SERVICES, front)
    cache.put(SERVICES, service(9))
    assert not cache.lost(SERVICES, front), "made again"
    cache.forget(SERVICES, front)
    assert cache.lost(SERVICES, front)
    cache.settle(SERVICES, [], "10")
    assert not cache.lost(SERVICES, front), "remembered until the next list"


def test_list_removes_missing_objects_unless_newer(cache: Cache, reported: list[OwnerKey]) -> None:
    cache.put(SERVICES, service(5, name="gone"))
    cache.put(SERVICES, service(6, name="there"))
    cache.put(SERVICES, service(12, name="newer"))
    del reported[:]
    cache.settle(SERVICES, [Key("ns", "there")], "10")
    assert sorted(cache.keys(SERVICES)) == [Key("ns", "newer"), Key("ns", "there")]
    assert reported == [TINY]


def test_list_of_one_namespace_keeps_objects_of_another(cache: Cache, reported: list[OwnerKey]) -> None:
    other = {"metadata": {"name": "front", "namespace": "other", "resourceVersion": "4"}}
    cache.put(SERVICES, service(5, name="gone"))
    cache.put(SERVICES, other)
    cache.settle(SERVICES, [], "10", "ns")
    assert cache.keys(SERVICES) == [Key("other", "front")]
    cache.settle(SERVICES, [], "11", "ns")
    assert not cache.lost(SERVICES, Key("ns", "gone")), "remembered until the next list"
    cache.put(SERVICES, service(12, name="new"))
    cache.clear(SERVICES, "ns")
    assert cache.keys(SERVICES) == [Key("other", "front")]
    cache.clear(SERVICES)
    assert cache.keys(SERVICES) == []


def test_objects_are_found_by_owner_reference_or_label(cache: Cache) -> None:
    labelled = {"metadata": {"name": "pod", "namespace": "ns", "labels": {**names.owner_labels("tiny")}}}
    cache.put(PODS, labelled)
    cache.put(SERVICES, service(1))
    cache.put(SERVICES, service(2, owner="other", name="second"))
    assert [pod["metadata"]["name"] for pod in cache.owned_by(TINY, PODS)] == ["pod"]
    assert [each["metadata"]["name"] for each in cache.owned_by(TINY, SERVICES)] == ["front"]
    assert cache.owned_by(OwnerKey("LLMService", "elsewhere", "tiny"), SERVICES) == []


def test_both_owners_are_notified_when_owner_of_object_changes(
    cache: Cache, reported: list[OwnerKey]
) -> None:
    cache.put(SERVICES, service(1))
    del reported[:]
    cache.put(SERVICES, service(2, owner="other"))
    assert sorted(reported) == [OwnerKey("LLMService", "ns", "other"), TINY]
    assert cache.owned_by(TINY, SERVICES) == []


def test_owner_is_not_notified_of_own_write(cache: Cache, reported: list[OwnerKey]) -> None:
    cache.put(SERVICES, service(1))
    del reported[:]
    with cache.writing(SERVICES, Key("ns", "front")) as take:
        cache.put(SERVICES, service(2))  # the watch is quicker than the answer
        take(service(2), False)
    with cache.writing(SERVICES, Key("ns", "front")) as take:
        take(service(3), False)
    cache.put(SERVICES, service(3))  # the watch is slower
    assert reported == []


def test_follower_is_notified_of_own_writes_only(cache: Cache) -> None:
    received: list[OwnerKey] = []
    cache.follow(lambda _resource, key: received.append(key))
    cache.put(SERVICES, service(1))
    assert received == []
    with cache.writing(SERVICES, Key("ns", "front")) as take:
        take(service(2), False)
    assert received == [TINY]


@pytest.mark.parametrize("case", ["after", "before", "unanswered", "deleted"])
def test_foreign_change_during_own_write_notifies_owner(
    case: str, cache: Cache, reported: list[OwnerKey]
) -> None:
    cache.put(SERVICES, service(1))
    del reported[:]
    with cache.writing(SERVICES, Key("ns", "front")) as take:
        if case == "after":
            take(service(2), False)
            cache.put(SERVICES, service(3))
        elif case == "before":
            cache.put(SERVICES, service(2, status="new"))
            take(service(3, status="new"), True)
        elif case == "unanswered":
            cache.put(SERVICES, service(2))
        else:
            take(service(2), False)
            cache.drop(SERVICES, service(3))
    assert reported == [TINY]


def test_cached_object_keeps_spec_without_managed_fields(cache: Cache) -> None:
    manifest = service(1, spec={"text": "x" * 5000})
    manifest["metadata"]["managedFields"] = [{"manager": "somebody"}]
    cache.put(SERVICES, manifest)
    found = cache.get(SERVICES, Key("ns", "front"))
    assert found is not None
    assert found["spec"] == manifest["spec"]
    assert "managedFields" not in found["metadata"]


def test_a_nodes_heartbeat_is_no_change(cache: Cache, reported: list[OwnerKey]) -> None:
    def node(version: int, beat: str, gpus: str = "8") -> dict[str, Any]:
        status = {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": [{"lastHeartbeatTime": beat}]}
        return {"metadata": {"name": "n", "uid": "1", "resourceVersion": str(version)}, "status": status}

    cache.put(NODES, node(1, "noon"))
    changes = cache.changes(NODES)
    assert not cache.put(NODES, node(2, "later"))
    assert cache.changes(NODES) == changes
    assert cache.put(NODES, node(3, "later", gpus="4"))
    assert reported == [OwnerKey("Node", "", "n")] * 2


@pytest.mark.parametrize("resource", [LLM_SERVICES, SERVICES])
def test_forget_removes_object_and_notifies_owner(
    resource: Resource, cache: Cache, reported: list[OwnerKey]
) -> None:
    cache.put(resource, service(1, name="tiny"))
    assert cache.forget(resource, TINY.key)
    assert not cache.forget(resource, TINY.key)
    assert cache.keys(resource) == []
    assert reported == [TINY, TINY]


def test_keys_and_has_any_are_limited_to_namespace(cache: Cache) -> None:
    front = service(5)
    other = {"metadata": {**service(6, name="other")["metadata"], "namespace": "elsewhere"}}
    cache.put(SERVICES, front)
    cache.put(SERVICES, other)
    assert cache.keys(SERVICES, "ns") == [Key("ns", "front")]
    assert sorted(cache.keys(SERVICES)) == [Key("elsewhere", "other"), Key("ns", "front")]
    assert cache.has_any(SERVICES, "elsewhere")
    cache.forget(SERVICES, Key("elsewhere", "other"))
    assert not cache.has_any(SERVICES, "elsewhere")
    assert not cache.has_any(SERVICES, "unknown")
    cache.settle(SERVICES, [Key("ns", "front")], "9", "ns")
    assert cache.lost(SERVICES, Key("elsewhere", "other")), "the list was of another namespace"
    cache.settle(SERVICES, [Key("ns", "front")], "9")
    assert not cache.lost(SERVICES, Key("elsewhere", "other"))
    assert cache.keys(SERVICES) == [Key("ns", "front")]


def test_version_is_that_of_cached_object_or_none_if_missing(cache: Cache) -> None:
    front = Key("ns", "front")
    assert cache.version(SERVICES, front) is None
    cache.put(SERVICES, service(5))
    assert cache.version(SERVICES, front) == 5
    cache.put(SERVICES, service(7))
    assert cache.version(SERVICES, front) == 7
    cache.forget(SERVICES, front)
    assert cache.version(SERVICES, front) is None
