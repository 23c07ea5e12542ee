"""Capacity for another Ray cluster at this time."""

from decimal import Decimal

from daybreak.scheduling.nodes import Node
from daybreak.scheduling.room import Booked, crowded, places
from tests.unit.llmservice.decide.scenes.services import GPU_MODEL, Manifest, node, service

NOTHING: Booked = {}


def booked(name: str = "node-a", *, gpus: int = 0, cores: int = 0) -> Booked:
    """Return the used resources of a node."""
    return {name: {"nvidia.com/gpu": Decimal(gpus), "cpu": Decimal(cores)}}


def read_message(*nodes: Node, taken: Booked = NOTHING, replicas: int = 1, **model: Manifest | int) -> str:
    """Return the reason why a service with one model cannot be scheduled, or an empty string."""
    svc = service({**GPU_MODEL, **model})
    return crowded(svc.workload, {"qwen": replicas}, nodes, taken)


def test_empty_node_has_capacity() -> None:
    assert read_message(node(gpus=1)) == ""


def test_used_accelerators_are_not_free() -> None:
    assert read_message(node(gpus=2), taken=booked(gpus=1)) == ""
    reported = read_message(node(gpus=2), taken=booked(gpus=2))
    assert "model qwen needs 1 nvidia.com/gpu" in reported
    assert "at most 0 are free on one node" in reported


def test_only_nodes_with_accelerators_are_possible_places() -> None:
    workload = service(GPU_MODEL).workload
    assert places(workload, (node("a", gpus=1), node("b", gpus=0), node("c", gpus=8))) == {"a", "c"}


def test_replica_pod_cannot_use_free_accelerators_of_two_nodes() -> None:
    two = {"tensor": 2}
    halves = (node("a", gpus=2), node("b", gpus=2))
    taken = {**booked("a", gpus=1), **booked("b", gpus=1)}
    assert "at most 1 are free" in read_message(*halves, taken=taken, parallelism=two)
    assert read_message(*halves, taken=booked("a", gpus=1), parallelism=two) == ""


def test_capacity_is_required_for_all_replicas() -> None:
    nodes = (node("a", gpus=1), node("b", gpus=1))
    assert read_message(*nodes, replicas=2) == ""
    assert "after 2 of 3 pods" in read_message(*nodes, replicas=3)


def test_missing_capacity_for_second_head_is_reported() -> None:
    large = node(gpus=2, cpu="8")
    assert read_message(large, taken=booked(gpus=1, cores=4)) == ""
    reported = read_message(large, taken=booked(gpus=1, cores=5))
    assert reported == "its head needs 1.1 cores for a pod, and at most 1 are free on one node"


def test_cordoned_node_has_no_capacity() -> None:
    assert "no node takes them" in read_message(node(gpus=8, cordoned=True))


def test_model_with_zero_replicas_needs_no_capacity() -> None:
    assert read_message(node(gpus=1), taken=booked(gpus=1), replicas=0) == ""
