"""The fit check on any nodes."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.llmservice.definition import LLMService
from daybreak.scheduling.fit import fit
from daybreak.scheduling.nodes import Node
from tests.property.services import services
from tests.unit.llmservice.decide.scenes.services import node

nodes_of_any_kind = st.lists(
    st.builds(
        lambda number, gpus, cpu, memory, labels, taints, cordoned: node(
            f"node-{number}",
            gpus=gpus,
            cpu=cpu,
            memory=memory,
            labels=labels,
            taints=taints,
            cordoned=cordoned,
        ),
        st.integers(0, 99),
        st.sampled_from([0, 1, 4, 8, 64]),
        st.sampled_from(["1", "3920m", "64", "999"]),
        st.sampled_from(["1Gi", "32Gi", "16Ti"]),
        st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"])),
        st.lists(
            st.sampled_from(
                [{"key": "gpu", "effect": "NoSchedule"}, {"key": "z", "value": "1", "effect": "NoExecute"}]
            ),
            max_size=2,
        ).map(tuple),
        st.booleans(),
    ),
    max_size=5,
).map(tuple)


@given(services(), nodes_of_any_kind)
def test_fit_check_is_repeatable_and_passes_with_enough_nodes(
    svc: LLMService, nodes: tuple[Node, ...]
) -> None:
    found = fit(svc.workload, nodes)
    assert fit(svc.workload, tuple(nodes)) == found
    for misfit in found:
        assert misfit.message
        assert "\n" not in misfit.message
    roomy = node("roomy", gpus=10_000, cpu="100000", memory="900Ti")
    allocatable = {**roomy.allocatable, "rdma/hca": "10000"}
    plenty = tuple(
        replace(roomy, labels=labels, allocatable=allocatable)
        for labels in _wanted_labels(svc)
        for _ in range(2)
    )
    assert fit(svc.workload, (*nodes, *plenty)) == ()


def _wanted_labels(svc: LLMService) -> Iterator[dict[str, str]]:
    """Yield the labels that the nodes of the head and of each model must have."""
    head = svc.spec.runtime.head
    for selector, template in (
        (head.node_selector, head.pod_template),
        *((model.accelerator.node_selector, model.pod_template) for model in svc.spec.models),
    ):
        yield {**selector, **(template.spec.node_selector if template is not None else {})}
