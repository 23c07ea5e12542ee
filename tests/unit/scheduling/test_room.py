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


def test_an_empty_node_has_room() -> None:
    assert read_message(node(gpus=1)) == ""


def test_what_others_hold_is_not_free() -> None:
    assert read_message(node(gpus=2), taken=booked(gpus=1)) == ""
    reported = read_message(node(gpus=2), taken=booked(gpus=2))
    assert "model qwen needs 1 nvidia.com/gpu" in reported
    assert "at most 0 are free on one node" in reported


def test_which_nodes_it_may_need() -> None:
    workload = service(GPU_MODEL).workload
    assert places(workload, (node("a", gpus=1), node("b", gpus=0), node("c", gpus=8))) == {"a", "c"}


def test_a_replica_stands_on_one_node() -> None:
    two = {"tensor": 2}
    halves = (node("a", gpus=2), node("b", gpus=2))
    taken = {**booked("a", gpus=1), **booked("b", gpus=1)}
    assert "at most 1 are free" in read_message(*halves, taken=taken, parallelism=two)
    assert read_message(*halves, taken=booked("a", gpus=1), parallelism=two) == ""


def test_there_must_be_room_for_as_many_replicas_as_run() -> None:
    nodes = (node("a", gpus=1), node("b", gpus=1))
    assert read_message(*nodes, replicas=2) == ""
    assert "after 2 of 3 pods" in read_message(*nodes, replicas=3)


def test_there_must_be_room_for_a_second_head() -> None:
    reported = read_message(node(gpus=2, cpu="4"), taken=booked(gpus=1, cores=2))
    assert "its head needs 1.1 cores" in reported or "model qwen needs" in reported


def test_nodes_that_take_nobody_have_no_room() -> None:
    assert "no node takes them" in read_message(node(gpus=8, cordoned=True))


def test_who_sleeps_needs_none() -> None:
    assert read_message(node(gpus=1), taken=booked(gpus=1), replicas=0) == ""
