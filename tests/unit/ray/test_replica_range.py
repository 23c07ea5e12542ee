"""Allowed number of replicas of a model."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak.ray.serve.replica_range import ReplicaRange, replica_range
from tests.unit.ray.services import model, service


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ({}, ReplicaRange(1, 1, 1)),
        ({"min": 0}, ReplicaRange(1, 1, 1)),
        ({"min": 3}, ReplicaRange(3, 3, 3)),
        ({"min": 0, "max": 4}, ReplicaRange(1, 4, 1)),
        ({"min": 1, "max": 4, "initial": 2}, ReplicaRange(1, 4, 2)),
        ({"min": 0, "initial": 0}, ReplicaRange(1, 1, 1)),
    ],
)
def test_replica_range_follows_model_replicas(written: dict[str, Any], found: ReplicaRange) -> None:
    svc = service(model(replicas=written))
    assert replica_range(svc.workload, svc.spec.models[0]) == found


@pytest.mark.parametrize(
    ("fixed", "found"), [(0, ReplicaRange(1, 1, 1)), (1, ReplicaRange(1, 1, 1)), (7, ReplicaRange(7, 7, 7))]
)
def test_service_replicas_override_model_replicas(fixed: int, found: ReplicaRange) -> None:
    svc = service(model(replicas={"min": 2, "max": 4}), replicas=fixed)
    assert replica_range(svc.workload, svc.spec.models[0]) == found


@pytest.mark.parametrize("spec", [{}, {"replicas": 3}])
def test_sleeping_model_has_no_replicas_and_other_model_keeps_its_range(spec: dict[str, Any]) -> None:
    svc = replace(service(model(replicas={"min": 2}), model(name="n"), **spec), asleep=frozenset({"m"}))
    one, other = (replica_range(svc.workload, each) for each in svc.spec.models)
    assert one == ReplicaRange(0, 1, 0)
    assert other.min == spec.get("replicas", 1)
