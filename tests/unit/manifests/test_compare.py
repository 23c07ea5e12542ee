"""Comparison of live objects with desired ones."""

import copy
from typing import Any

import pytest

from daybreak.manifests.compare import APPLIED, difference, digest, stamped

WANTED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "tiny",
        "namespace": "default",
        "labels": {"app.kubernetes.io/managed-by": "daybreak"},
        "ownerReferences": [{"uid": "1", "kind": "LLMService", "name": "tiny", "controller": True}],
    },
    "spec": {
        "selector": {"ray.io/cluster": "tiny-abcde"},
        "ports": [{"name": "http", "port": 80, "targetPort": 8000}],
        "publishNotReadyAddresses": False,
        "externalIPs": [],
    },
}


def live(**changes: Any) -> dict[str, Any]:
    """Return the desired object as the API server returns it, with some paths (`a.b.0.c`) changed."""
    found = copy.deepcopy(WANTED)
    found["metadata"] |= {"uid": "7", "resourceVersion": "12", "creationTimestamp": "2026-01-01T00:00:00Z"}
    found["metadata"]["labels"]["team"] = "search"
    found["metadata"]["ownerReferences"].append({"uid": "2", "kind": "Other", "name": "o"})
    found["spec"] |= {"clusterIP": "10.0.0.1", "sessionAffinity": "None"}
    found["spec"]["ports"][0]["protocol"] = "TCP"
    del found["spec"]["publishNotReadyAddresses"], found["spec"]["externalIPs"]
    found["status"] = {"loadBalancer": {}}
    for path, value in changes.items():
        *steps, last = path.split("__")
        at: Any = found
        for step in steps:
            at = at[int(step)] if step.isdecimal() else at[step]
        at[last] = value
    return found


def test_defaults_and_additions_are_no_difference() -> None:
    assert difference(WANTED, live()) == ""


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"spec__ports": []}, "spec.ports"),
        ({"spec__ports__0__targetPort": 9}, "spec.ports[0].targetPort"),
        ({"spec__ports__0__targetPort": "8000"}, "spec.ports[0].targetPort"),
        ({"spec__selector": {"ray.io/cluster": "tiny-abcde", "app": "x"}}, "spec.selector"),
        ({"spec__publishNotReadyAddresses": True}, "spec.publishNotReadyAddresses"),
        ({"metadata__labels": {"team": "search"}}, "metadata.labels.app.kubernetes.io/managed-by"),
        ({"metadata__labels": None}, "metadata.labels"),
        ({"metadata__ownerReferences": [{"uid": "2"}]}, "metadata.ownerReferences"),
        ({"metadata__ownerReferences": None}, "metadata.ownerReferences"),
    ],
)
def test_difference_returns_path_of_changed_field(changes: dict[str, Any], path: str) -> None:
    assert difference(WANTED, live(**changes)) == path


def test_true_differs_from_integer_one() -> None:
    assert difference({"metadata": {}, "spec": {"x": True}}, {"metadata": {}, "spec": {"x": 1}}) == "spec.x"


def test_missing_zero_is_a_difference_and_missing_empty_value_is_not() -> None:
    assert difference({"metadata": {}, "spec": {"minReplicas": 0}}, {"metadata": {}, "spec": {}}) != ""
    empty: list[Any] = [{}, [], None, "", False]
    for nothing in empty:
        assert difference({"metadata": {}, "spec": {"x": nothing}}, {"metadata": {}, "spec": {}}) == ""


def test_removed_field_is_detected_by_digest() -> None:
    less = copy.deepcopy(WANTED)
    del less["spec"]["ports"][0]["targetPort"]
    was = live()
    was["metadata"]["annotations"] = {APPLIED: digest(WANTED)}
    assert difference(stamped(WANTED), was) == ""
    assert difference(less, was) == "", "the API server's default could be the same"
    assert difference(stamped(less), was) == f"metadata.annotations.{APPLIED}"


def test_stamp_keeps_input_unchanged_and_ignores_field_order() -> None:
    before = copy.deepcopy(WANTED)
    turned = dict(reversed(WANTED.items()))
    assert stamped(WANTED)["metadata"]["annotations"] == stamped(turned)["metadata"]["annotations"]
    assert before == WANTED
