"""The arithmetic of one replica."""

from decimal import Decimal
from typing import Any

import pytest

from daybreak.api.ray.model import Placement
from daybreak.scheduling import replica_size
from tests.unit.ray.services import model, service


def one(**fields: Any) -> Any:
    """Return a model with these fields."""
    return service(model(**fields)).spec.models[0]


@pytest.mark.parametrize(
    ("tensor", "pipeline", "desired", "placement", "pods", "accelerators"),
    [
        (1, 1, None, Placement.PACK, 1, 1),
        (4, 1, None, Placement.STRICT_PACK, 1, 4),
        (4, 1, "PACK", Placement.PACK, 1, 4),
        (4, 2, None, Placement.PACK, 2, 4),
        (1, 3, None, Placement.PACK, 3, 1),
        (4, 2, "STRICT_PACK", Placement.STRICT_PACK, 1, 8),
    ],
)
def test_parallelism_determines_placement_pods_and_accelerators(
    tensor: int, pipeline: int, desired: str | None, placement: Placement, pods: int, accelerators: int
) -> None:
    spread = one(parallelism={"tensor": tensor, "pipeline": pipeline}, placement=desired)
    assert replica_size.placement(spread) is placement
    assert replica_size.pods_per_replica(spread) == pods
    assert replica_size.accelerators_per_pod(spread) == accelerators
    assert replica_size.ray_cpus_per_pod(spread) == accelerators + 1


def test_cpu_pod_requests_default_cpu_and_memory() -> None:
    need = replica_size.worker_need(one(accelerator={"kind": "cpu"}))
    assert need.requests == {"cpu": "2", "memory": "5Gi"}


def test_accelerator_pod_requests_devices_and_keeps_node_constraints() -> None:
    need = replica_size.worker_need(
        one(
            parallelism={"tensor": 2},
            accelerator={
                "resource": "amd.com/gpu",
                "nodeSelector": {"a": "b"},
                "tolerations": [{"operator": "Exists"}],
            },
        )
    )
    assert need.requests == {"cpu": "3", "memory": "40Gi", "amd.com/gpu": "2"}
    assert replica_size.need_in_numbers(need) == {"cpu": 3, "memory": 40 * 2**30, "amd.com/gpu": 2}
    assert need.node_selector == {"a": "b"}
    assert [toleration.operator for toleration in need.tolerations] == ["Exists"]


def test_specified_resources_override_computed_resources() -> None:
    need = replica_size.worker_need(one(resources={"cpu": "500m", "memory": "1Gi"}))
    numbers = replica_size.need_in_numbers(need)
    assert (numbers["cpu"], numbers["memory"]) == (Decimal("0.5"), Decimal(2**30))


@pytest.mark.parametrize(
    ("shared", "store"),
    [("1Gi", 2**29), ("64Gi", 2**30), ("600Mi", 300 * 2**20), ("100Mi", 75 * 2**20)],
)
def test_object_store_has_half_of_shared_memory_within_bounds(shared: str, store: int) -> None:
    assert replica_size.object_store_bytes(shared) == store


@pytest.mark.parametrize(("tensor", "size"), [(1, "2Gi"), (8, "16Gi")])
def test_shared_memory_grows_with_the_accelerators(tensor: int, size: str) -> None:
    assert replica_size.worker_shared_memory(one(parallelism={"tensor": tensor})) == size


def test_shared_memory_of_cpu_pod_is_1_gib() -> None:
    assert replica_size.worker_shared_memory(one(accelerator={"kind": "cpu"})) == "1Gi"
