"""A change of nodes requeues the services for which the result of the fit check changes."""

import pytest

from daybreak.controller.watching.fit_watch import FitWatch
from daybreak.manifests.keys import Key
from daybreak.scheduling import fit
from daybreak.scheduling.nodes import Node
from tests.unit.llmservice.decide.scenes.services import GPU_MODEL, node, service

HEAD = node("head", cpu="4", memory="16Gi")
SMALL, LARGE = node("small", gpus=4), node("large", gpus=8)
ONE, FOUR, EIGHT = Key("ns", "one"), Key("ns", "four"), Key("ns", "eight")
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


def note(watch: FitWatch, key: Key, gpus: int, nodes: tuple[Node, ...] | None) -> None:
    """Record a service whose replica uses the given number of GPUs of one node."""
    observed = service({**GPU_MODEL, "parallelism": {"tensor": gpus}})
    watch.note(key, observed, nodes, lambda requested: fit.questions(requested.workload))


def watch(nodes: tuple[Node, ...] | None) -> FitWatch:
    """Return the watch of three services, observed with these nodes."""
    found = FitWatch()
    for key, gpus in ((ONE, 1), (FOUR, 4), (EIGHT, 8)):
        note(found, key, gpus, nodes)
    return found


@pytest.mark.parametrize(
    "nodes",
    [
        (HEAD, SMALL),
        (SMALL, HEAD),
        (HEAD, node("small", gpus=4, labels={"rack": "7"})),
        (HEAD, node("small", gpus=4, taints=(NOT_READY,))),
        (HEAD, node("small", gpus=4, cpu="128", memory="1Ti")),
        (HEAD, SMALL, node("other", cpu="8")),
        (HEAD, SMALL, node("third", cordoned=True)),
    ],
)
async def test_node_change_without_effect_on_fit_concerns_no_service(nodes: tuple[Node, ...]) -> None:
    assert await watch((HEAD, SMALL)).concerned(nodes) == []


async def test_node_change_concerns_services_whose_fit_result_changes() -> None:
    found = watch((HEAD, SMALL))
    assert await found.concerned((HEAD, SMALL, LARGE)) == [EIGHT]
    note(found, EIGHT, 8, (HEAD, SMALL, LARGE))
    assert await found.concerned((HEAD, LARGE)) == []
    # One service fits nowhere after the change, and the messages of the others have other numbers.
    assert await found.concerned((HEAD, node("tiny", gpus=1))) == [FOUR, EIGHT]
    assert await found.concerned((HEAD,)) == [ONE, FOUR, EIGHT]


async def test_concerned_service_is_reported_again_until_reconciled() -> None:
    found = watch((HEAD, SMALL))
    for _ in range(2):
        assert await found.concerned((HEAD, LARGE)) == [EIGHT]
    # The nodes are as before the last check: nothing has changed.
    assert await found.concerned((HEAD, SMALL)) == []


async def test_all_services_are_concerned_when_nodes_become_known_or_unknown() -> None:
    found = watch(None)
    assert await found.concerned(None) == []
    assert await found.concerned((HEAD, SMALL)) == [ONE, FOUR, EIGHT]
    found = watch((HEAD, SMALL))
    assert await found.concerned(None) == [ONE, FOUR, EIGHT]


async def test_forgotten_service_is_not_concerned() -> None:
    found = watch((HEAD,))
    for key in (EIGHT, FOUR):
        found.forget(key)
    assert await found.concerned((HEAD, LARGE)) == [ONE]
