"""Lives of a service: what is observed, in any order, and what the operator decides."""

import json
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import strategies as st

from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.workloads.answer import Answer
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    GPU_MODEL,
    OTHER_MODEL,
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
    """Draw a status that KubeRay may write for a service."""
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
    """Return the RayService of one of the specs, built once."""
    key = json.dumps(llm["spec"])
    if key not in _BUILT:
        _BUILT[key] = ray_service(llm)
    return _BUILT[key]


class Walk(World):
    """A world that goes anywhere."""

    def apply(self) -> None:
        """Do what the operator does with its RayService: a changed spec is a new generation."""
        desired = built(next(spec for spec in SPECS if spec["spec"] == self.observed.manifest["spec"]))
        before = self.observed.ray_service or {"metadata": {"generation": 0}, "spec": None}
        generation = before["metadata"]["generation"] + (before["spec"] != desired["spec"])
        made = {"metadata": {**desired["metadata"], "generation": generation}, "spec": desired["spec"]}
        self.observed = replace(self.observed, ray_service={**made, "status": before.get("status", {})})

    def write(self, status: Manifest) -> None:
        """Do what KubeRay does."""
        if self.observed.ray_service is not None:
            self.observed = replace(
                self.observed, ray_service={**self.observed.ray_service, "status": status}
            )


def walk(data: st.DataObject, steps: int) -> Iterator[tuple[Observed, Decision, tuple[Answer, ...], Walk]]:
    """Steps through a life: what was seen, what was decided, and the answers that had come."""
    world = Walk(data.draw(st.sampled_from(SPECS)))
    for _ in range(steps):
        match data.draw(
            st.sampled_from(["edit", "apply", "say", "say", "pods", "answer", "answer", "time", "world"])
        ):
            case "edit":
                world.edit(data.draw(st.sampled_from(SPECS)))
            case "say" if world.observed.ray_service is not None:
                world.write(data.draw(statuses(world.observed.ray_service["metadata"]["generation"])))
            case "pods":
                world.observed = replace(world.observed, pods=data.draw(pods))
            case "world":
                world.observed = replace(
                    world.observed,
                    nodes=data.draw(st.sampled_from([None, (), (node(gpus=8),)])),
                    refusal=data.draw(st.sampled_from(["", "", "Service chat: no"])),
                    foreign=data.draw(st.sampled_from([(), (), ("Service/chat",)])),
                    kuberay_installed=data.draw(st.sampled_from([True, True, True, False])),
                )
        first = decide(world.observed)
        if first.apply:
            world.apply()
        answers: dict[str, bool | str] = data.draw(
            st.dictionaries(st.sampled_from(["tiny", "other"]), st.sampled_from([True, True, "no route"]))
        )
        came = tuple(
            Answer(name, message is True, "" if message is True else str(message))
            for name, message in answers.items()
        )
        before = world.observed
        after = data.draw(st.sampled_from([0.0, 1.0, 10.0, 3600.0]))
        decision = world.step(after=after, answers=answers)
        yield replace(before, now=world.observed.now), decision, came, world
