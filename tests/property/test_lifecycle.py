"""What holds of every decision, whatever is seen and in whatever order it comes."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.kinds.llmservice.decide.fingerprint import Fingerprint
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.views.ray_service_view import ray_view
from daybreak.scheduling.fit import fit
from daybreak.scheduling.nodes import Node
from daybreak.workloads.answer import Answer
from tests.property.services import services
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    GPU_MODEL,
    OTHER_MODEL,
    START,
    Manifest,
    World,
    manifest,
    node,
    pod,
    ray_service,
    ray_status,
    unplaced,
    waiting,
)
from tests.unit.llmservice.decision import Decision, decide

A, B = "chat-aaaaa", "chat-bbbbb"
SPECS = (
    manifest(CPU_MODEL),
    manifest(CPU_MODEL, replicas=2),
    manifest(CPU_MODEL, replicas=0),
    manifest({**CPU_MODEL, "engine": {"args": {"max_num_seqs": 4}}}),
    manifest({**CPU_MODEL, "engine": {"args": {"max_model_length": 4}}}),
    manifest({**CPU_MODEL, "source": "ftp://x"}),
    manifest({**CPU_MODEL, "replicas": {"min": 0}}, OTHER_MODEL),
    manifest({**CPU_MODEL, "replicas": {"min": 0, "initial": 0}}),
    manifest({**GPU_MODEL, "name": "tiny", "parallelism": {"tensor": 16}}),
    manifest(CPU_MODEL, OTHER_MODEL, runtime={"image": "ray:2"}),
)
JUNK = st.sampled_from([None, 0, -1, 3.5, True, "", "x", [], ["x"], [None], {}, {"a": 1}, {"": None}])
ERROR = "A replica failed to start with exception. Retrying 1 more time(s). Error:\nValueError: no"
deployments: st.SearchStrategy[str | tuple[str, str]] = st.sampled_from(
    [
        "HEALTHY",
        "UPDATING",
        "UPSCALING",
        "DOWNSCALING",
        "UNHEALTHY",
        ("DEPLOY_FAILED", ERROR),
        ("UPDATING", ERROR),
    ]
)
pod_states = st.sampled_from(
    [
        {"ready": True},
        {"ready": False},
        {"ready": False, "placed": False, "status": unplaced("0/1 nodes are available")},
        {"ready": False, "status": waiting("ErrImagePull", "no")},
        {
            "ready": False,
            "status": waiting("ImagePullBackOff", 'Back-off pulling image "i": ErrImagePull: no'),
        },
        {"ready": False, "status": waiting("CreateContainerConfigError", 'secret "x" not found')},
        {"ready": False, "leaving": True},
        {
            "status": {
                "phase": "Failed",
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}],
            }
        },
    ]
)


@st.composite
def statuses(draw: st.DrawFn, generation: int) -> Manifest:
    """What KubeRay may say of a service."""
    app = draw(st.sampled_from([None, "RUNNING", "RUNNING", "DEPLOYING", "DEPLOY_FAILED", "UNHEALTHY"]))
    message = {
        "DEPLOY_FAILED": draw(
            st.sampled_from(["Failed to update the deployments ['x'].", "failed:\nKeyError: 'x'"])
        ),
        "UNHEALTHY": "The deployments ['x'] are UNHEALTHY.",
    }
    return ray_status(
        active=draw(st.sampled_from(["", A, A, A, B])),
        pending=draw(st.sampled_from(["", "", "", B, "chat-ccccc"])),
        ready=draw(st.sampled_from([True, True, False])),
        app=app,
        message=message.get(app or "", ""),
        models=draw(st.dictionaries(st.sampled_from(["tiny", "other"]), deployments)),
        generation=draw(st.integers(max(0, generation - 1), generation)),
    )


pods = st.lists(
    st.builds(
        lambda number, cluster, model, state: pod(f"p-{number}", cluster=cluster, model=model, **state),
        st.integers(0, 9),
        st.sampled_from([A, A, B]),
        st.sampled_from([None, "tiny", "other"]),
        pod_states,
    ),
    max_size=4,
).map(tuple)


_BUILT: dict[str, Manifest] = {}


def built(llm: Manifest) -> Manifest:
    """The RayService of one of the specs, built once."""
    key = json.dumps(llm["spec"])
    if key not in _BUILT:
        _BUILT[key] = ray_service(llm)
    return _BUILT[key]


class Walk(World):
    """A world that goes anywhere."""

    def apply(self) -> None:
        """Do what the operator does with its RayService: a changed spec is a new generation."""
        wanted = built(next(spec for spec in SPECS if spec["spec"] == self.seen.manifest["spec"]))
        before = self.seen.ray_service or {"metadata": {"generation": 0}, "spec": None}
        generation = before["metadata"]["generation"] + (before["spec"] != wanted["spec"])
        made = {"metadata": {**wanted["metadata"], "generation": generation}, "spec": wanted["spec"]}
        self.seen = replace(self.seen, ray_service={**made, "status": before.get("status", {})})

    def say(self, status: Manifest) -> None:
        """Do what KubeRay does."""
        if self.seen.ray_service is not None:
            self.seen = replace(self.seen, ray_service={**self.seen.ray_service, "status": status})


def walk(data: st.DataObject, steps: int) -> Iterator[tuple[Observed, Decision, tuple[Answer, ...], Walk]]:
    """Steps through a life: what was seen, what was decided, and the answers that had come."""
    world = Walk(data.draw(st.sampled_from(SPECS)))
    for _ in range(steps):
        match data.draw(
            st.sampled_from(["edit", "apply", "say", "say", "pods", "answer", "answer", "time", "world"])
        ):
            case "edit":
                world.edit(data.draw(st.sampled_from(SPECS)))
            case "say" if world.seen.ray_service is not None:
                world.say(data.draw(statuses(world.seen.ray_service["metadata"]["generation"])))
            case "pods":
                world.seen = replace(world.seen, pods=data.draw(pods))
            case "world":
                world.seen = replace(
                    world.seen,
                    nodes=data.draw(st.sampled_from([None, (), (node(gpus=8),)])),
                    refusal=data.draw(st.sampled_from(["", "", "Service chat: no"])),
                    foreign=data.draw(st.sampled_from([(), (), ("Service/chat",)])),
                    kuberay_installed=data.draw(st.sampled_from([True, True, True, False])),
                )
        first = decide(world.seen)
        if first.apply:
            world.apply()
        answers: dict[str, bool | str] = data.draw(
            st.dictionaries(st.sampled_from(["tiny", "other"]), st.sampled_from([True, True, "no route"]))
        )
        came = tuple(
            Answer(name, said is True, "" if said is True else str(said)) for name, said in answers.items()
        )
        before = world.seen
        after = data.draw(st.sampled_from([0.0, 1.0, 10.0, 3600.0]))
        decision = world.step(after=after, answers=answers)
        yield replace(before, now=world.seen.now), decision, came, world


def truth(decision: Decision) -> dict[str, str]:
    return {item.type: item.status for item in decision.status.conditions}


@given(st.data())
def test_ready_means_that_every_model_has_answered_as_what_it_is(data: st.DataObject) -> None:
    for seen, decision, came, _ in walk(data, 12):
        ray = ray_view(seen.ray_service)
        answered_before = {
            item["name"]: item.get("answered")
            for item in (seen.manifest.get("status") or {}).get("models", ())
        }
        answered_now = {answer.model for answer in came if answer.answered}
        for model in decision.status.models:
            if model.answered and model.answered != answered_before.get(model.name):
                assert model.name in answered_now, "an answer that nobody has given"
                assert model.name in decide(seen).ask, "an answer that nobody had asked for"
                assert model.answered == str(Fingerprint.now(ray))
        if truth(decision)["Ready"] != "True":
            continue
        assert ray.active
        assert ray.ready
        assert seen.subject is not None
        assert seen.problems == ()
        assert decision.status.observed_generation == seen.manifest["metadata"]["generation"]
        assert {model.name for model in decision.status.models} == {
            model.name for model in seen.subject.spec.models
        }
        for model in decision.status.models:
            as_what = Fingerprint.parse(model.answered or "")
            if as_what is None or as_what.cluster != ray.active:
                assert (seen.subject.spec.replicas, model.state) == (0, "Asleep")
            elif not ray.upgrading and model.state != "Asleep":
                assert as_what.configuration == ray.configuration


@given(st.data())
def test_time_alone_changes_nothing(data: st.DataObject) -> None:
    """Nor does deciding again: what was said is what would be said."""
    for _, decision, _, world in walk(data, 6):
        for later in (0.0, 1.0, 86_400.0):
            seen = replace(world.seen, now=world.seen.now + timedelta(seconds=later))
            again = decide(seen)
            assert again.status == decision.status


@given(st.data())
def test_the_status_is_one_that_kstatus_understands(data: st.DataObject) -> None:
    for seen, decision, _, _ in walk(data, 8):
        found = truth(decision)
        assert list(found) == ["Ready", "Active", "Schedulable", "Reconciling", "Stalled"]
        assert not (found["Stalled"] == "True" and found["Reconciling"] == "True")
        # Scaled to 0 without a gateway it is down, as a person wants it.
        [ready] = [item for item in decision.status.conditions if item.type == "Ready"]
        down = ready.reason == "Asleep"
        assert found["Ready"] == "True" or down or "True" in (found["Stalled"], found["Reconciling"])
        generation = seen.manifest["metadata"]["generation"]
        assert decision.status.observed_generation == generation
        assert {item.observed_generation for item in decision.status.conditions} == {generation}
        assert all(item.message and item.reason for item in decision.status.conditions)
        assert decision.requeue_after is None or decision.requeue_after > timedelta(0)
        assert decision.apply or not decision.ask
        written = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert LLMServiceStatus.model_validate(written) == decision.status


@given(st.data())
def test_nobody_who_sleeps_and_has_answered_is_asked(data: st.DataObject) -> None:
    for seen, decision, _, _ in walk(data, 8):
        for model in decision.status.models:
            if model.state == "Asleep":
                assert model.name not in decision.ask
        assert seen.subject is not None or decision.ask == ()


def everything() -> Manifest:
    """A service in full swing, with every part that is read."""
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
        "manifest": copy.deepcopy(dict(world.seen.manifest)),
        "ray_service": world.seen.ray_service,
        "ray_clusters": [cluster],
        "pods": [
            *copy.deepcopy(world.seen.pods),
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
    """The path of every part of a manifest."""
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
def test_no_shape_of_what_others_write_is_an_error(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
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
    seen = Observed(
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
    before = copy.deepcopy(seen)
    for variant in (seen, replace(seen, subject=None), replace(seen, answers=(Answer("tiny", True),))):
        decide(variant).status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert seen == before, "what is read is left as it is"


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
def test_the_fit_check_always_has_an_answer(svc: LLMService, nodes: tuple[Node, ...]) -> None:
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
    """The labels that the nodes of the head and of each model must have."""
    head = svc.spec.runtime.head
    for selector, template in (
        (head.node_selector, head.pod_template),
        *((model.accelerator.node_selector, model.pod_template) for model in svc.spec.models),
    ):
        yield {**selector, **(template.spec.node_selector if template is not None else {})}
