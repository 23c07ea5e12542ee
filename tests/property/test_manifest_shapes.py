"""Decisions on manifests of any shape."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.scheduling.nodes import Node
from daybreak.workloads.answer import Answer
from tests.property.lives import ERROR, A
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    OTHER_MODEL,
    START,
    Manifest,
    World,
    manifest,
    pod,
    ray_service,
    ray_status,
    unplaced,
    waiting,
)
from tests.unit.llmservice.decision import decide

JUNK = st.sampled_from([None, 0, -1, 3.5, True, "", "x", [], ["x"], [None], {}, {"a": 1}, {"": None}])


def everything() -> Manifest:
    """Return a fully active service, with every part that the operator reads."""
    llm = manifest(CPU_MODEL, OTHER_MODEL)
    status = ray_status(
        active=A, ready=True, app="RUNNING", models={"tiny": "HEALTHY", "other": ("UPDATING", ERROR)}
    )
    cluster = {
        "metadata": {"name": A},
        "status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "forbidden"}]},
    }
    world = World(llm, ray_service=ray_service(llm, status=status), ray_clusters=(cluster,))
    world.step(
        pods=(pod("h", model=None), pod(gpus=1), pod("w-2", model="other", ready=False)),
        answers={"tiny": True},
    )
    terminated = {"name": "c", "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "m"}}}
    crashed = {"phase": "Failed", "containerStatuses": [terminated], "initContainerStatuses": [terminated]}
    return {
        "manifest": copy.deepcopy(dict(world.observed.manifest)),
        "ray_service": world.observed.ray_service,
        "ray_clusters": [cluster],
        "pods": [
            *copy.deepcopy(world.observed.pods),
            pod("w-3", ready=False, status=waiting("ImagePullBackOff", "no")),
            pod("w-4", ready=False, status=unplaced("no")),
            pod("w-5", ready=False, status=crashed),
        ],
        "nodes": [
            {
                "labels": {"a": "b"},
                "taints": [{"key": "k", "effect": "NoSchedule"}],
                "allocatable": {"cpu": "1"},
            }
        ],
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every part of a manifest."""
    if path:
        yield path
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else ()
    )
    for key, part in inner:
        yield from places(part, (*path, key))


WHOLE = everything()
PLACES = [
    path
    for path in places(WHOLE)
    # What the observer has already read, or the API server always writes.
    if path[:2] not in (("manifest", "spec"), ("manifest", "metadata")) and len(path) > 1
]


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.one_of(st.just(...), JUNK)), min_size=1, max_size=4))
def test_decision_accepts_malformed_manifest_parts_without_error(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    parts = copy.deepcopy(WHOLE)
    for path, junk in changes:
        part = parts
        try:
            for key in path[:-1]:
                part = part[key]
            if junk is ...:
                del part[path[-1]]
            else:
                part[path[-1]] = junk
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken the place away
    nodes = tuple(
        Node("n", each.get("labels") or {}, tuple(each.get("taints") or ()), each.get("allocatable") or {})
        for each in parts["nodes"]
        if isinstance(each, dict)
        and isinstance(each.get("labels") or {}, dict)
        and isinstance(each.get("allocatable") or {}, dict)
        and isinstance(each.get("taints") or [], list)
    )
    observed = Observed(
        manifest=parts["manifest"],
        subject=LLMService.from_manifest(manifest(CPU_MODEL, OTHER_MODEL)),
        problems=(),
        kuberay_installed=True,
        ray_service=parts["ray_service"],
        ray_clusters=tuple(parts["ray_clusters"]),
        pods=tuple(parts["pods"]),
        nodes=nodes,
        now=START,
    )
    before = copy.deepcopy(observed)
    for variant in (
        observed,
        replace(observed, subject=None),
        replace(observed, answers=(Answer("tiny", True),)),
    ):
        decide(variant).status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert observed == before, "what is read is left as it is"
