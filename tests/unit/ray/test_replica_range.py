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
def test_the_models_own_range(written: dict[str, Any], found: ReplicaRange) -> None:
    svc = service(model(replicas=written))
    assert replica_range(svc.workload, svc.spec.models[0]) == found


@pytest.mark.parametrize(
    ("fixed", "found"), [(0, ReplicaRange(1, 1, 1)), (1, ReplicaRange(1, 1, 1)), (7, ReplicaRange(7, 7, 7))]
)
def test_the_services_fixed_number_goes_before_it(fixed: int, found: ReplicaRange) -> None:
    svc = service(model(replicas={"min": 2, "max": 4}), replicas=fixed)
    assert replica_range(svc.workload, svc.spec.models[0]) == found


@pytest.mark.parametrize("spec", [{}, {"replicas": 3}])
def test_a_model_that_sleeps_has_none_and_the_others_keep_theirs(spec: dict[str, Any]) -> None:
    svc = replace(service(model(replicas={"min": 2}), model(name="n"), **spec), asleep=frozenset({"m"}))
    one, other = (replica_range(svc.workload, each) for each in svc.spec.models)
    assert one == ReplicaRange(0, 1, 0)
    assert other.min == spec.get("replicas", 1)
