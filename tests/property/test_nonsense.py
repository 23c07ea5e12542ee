"""Rollouts with any answers of a second Ray cluster, in any order of events.

The cluster of an open gate has answered, no held request is rejected, and a rollout that only fails ends in
time.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.ray.model import Model
from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds, redundant_cluster
from daybreak.kinds.llmservice.decide.finished_clusters import finished_clusters
from daybreak.kinds.llmservice.objects.built_with import BuiltWith
from daybreak.kinds.llmservice.objects.ray_service import ray_service as build
from daybreak.rollouts.machine import ERRORS
from tests.unit.llmservice.decide.scenes.rolling import Rolling
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    OTHER_MODEL,
    PLATFORM,
    Manifest,
    node,
    pod,
    ray_status,
)
from tests.unit.llmservice.decision import Decision

RENAMED: Manifest = {**CPU_MODEL, "name": "small"}
GOOD, NONSENSE, HALF, MUTE = "ray:good", "ray:nonsense", "ray:half", "ray:mute"
"""Answers of clusters: right, wrong, wrong for one model, and none."""
IMAGES = ("ray:1", "ray:2", NONSENSE, HALF, MUTE)
MODELS = ((CPU_MODEL,), (CPU_MODEL, OTHER_MODEL), (RENAMED, OTHER_MODEL))
ROOMY, FULL = (node(cpu="64"),), (node(cpu="9"),)
NO_ANSWER: dict[str, bool | str] = {
    NONSENSE: "http://10.0.0.1:8000/v1/completions answered 200 without a completion: {}",
    MUTE: "http://10.0.0.1:8000/v1 does not answer: TimeoutError",
}
LOOK = 4.0
"""Seconds between two looks, at the end."""


@dataclass
class Cluster:
    """A Ray cluster."""

    name: str
    built: BuiltWith
    annotations: Manifest
    made: datetime
    image: str
    models: tuple[Model, ...]
    workers: bool = True

    @property
    def manifest(self) -> Manifest:
        """Return the RayCluster."""
        made = self.made.strftime("%Y-%m-%dT%H:%M:%SZ")
        groups = [{"groupName": model.name} for model in self.models]
        metadata = {"name": self.name, "creationTimestamp": made, "annotations": self.annotations}
        return {"metadata": metadata, "spec": {"workerGroupSpecs": groups}}

    @property
    def pods(self) -> tuple[Manifest, ...]:
        """Return the service's pods."""
        head = pod(f"{self.name}-head", cluster=self.name, model=None)
        every = self.models if self.workers else ()
        return (head, *(pod(f"{self.name}-{m.name}", cluster=self.name, model=m.name) for m in every))

    def answer(self, model: str) -> bool | str:
        """Return the answer of a model to a probe."""
        if self.image == HALF:
            return model != self.models[0].name or NO_ANSWER[NONSENSE]
        return NO_ANSWER.get(self.image, True)


class Nonsense(RuleBasedStateMachine):
    """A service in Ray clusters of KubeRay's, which are played; all that is decided is real."""

    @initialize(
        models=st.sampled_from(MODELS),
        room=st.sampled_from([True, True, False]),
        image=st.sampled_from(IMAGES[1:]),
        others=st.sampled_from(MODELS),
    )
    def begin(
        self, models: tuple[Manifest, ...], room: bool, image: str, others: tuple[Manifest, ...]
    ) -> None:
        """Start with an answering service that a user has changed."""
        self.clusters: dict[str, Cluster] = {}
        self.active = self.pending = ""
        self.ray: Manifest | None = None
        self.observed, self.count = 0, 0
        self.has_answered: set[tuple[str, str]] = set()
        self.lost = False
        """True if KubeRay has deleted the cluster in use before another one had answered."""
        self.image, self.models = "ray:1", models
        self.world = Rolling(*models, nodes=ROOMY, runtime={"image": "ray:1"})
        self.ask: tuple[str, ...] = ()
        self.backends: list[str | None] = []
        self._rounds(6)
        assert self.world.phase == ("Complete", "Awake", 1)
        self.nodes_come_or_go(room)
        self.somebody_edits(image, others)

    def _ray_service(self) -> Manifest | None:
        if self.ray is None:
            return None
        coming = self.clusters.get(self.pending or self.active)
        runs = coming is not None and coming.workers and coming.built == BuiltWith.of(self.ray)
        names = [model.name for model in coming.models] if coming is not None else []
        status = ray_status(
            active=self.active,
            pending=self.pending,
            ready=bool(self.active),
            app=None if coming is None else "RUNNING" if runs else "DEPLOYING",
            models=dict.fromkeys(names, "HEALTHY" if runs else "UPDATING"),
            generation=self.observed,
        )
        return {**self.ray, "status": status}

    def _look(self, after: float = 1.0, answers: dict[str, bool | str] | None = None) -> Decision:
        """Run one reconcile, and apply its results."""
        came = {model: message for model, message in (answers or {}).items() if model in self.ask}
        self.has_answered |= {(self.active, model) for model, message in came.items() if message is True}
        decision = self.world.step(
            after=after,
            answers=came,
            ray_service=self._ray_service(),
            ray_clusters=tuple(each.manifest for each in self.clusters.values()),
            pods=tuple(each for cluster in self.clusters.values() for each in cluster.pods),
        )
        self.ask = decision.ask
        self._check(decision)
        self._carry_out()
        return decision

    def _check(self, decision: Decision) -> None:
        gate = decision.status.gate
        assert gate is not None
        before, self.backends = self.backends, [each.cluster for each in gate.backends]
        assert GateState.FAILED not in {each.state for each in gate.models}, "nobody is refused"
        if self.backends == before:
            self.lost |= bool(before) and before[0] not in self.clusters
        elif before and before[0] in self.clusters and self.backends:
            awake = [name for name, state in decision.sleep_states.items() if state.asleep is None]
            assert {(self.backends[0], name) for name in awake} <= self.has_answered
            self.lost = False
        else:
            self.lost |= bool(before and self.backends)
        if self.backends and not self.lost:
            named = {each.name for each in gate.models if each.state is GateState.OPEN}
            assert {(self.backends[0], name) for name in named} <= self.has_answered, "it has answered there"
        if self.world.rollout["phase"] in ("Complete", "RolledBack"):
            self.lost = False

    def _carry_out(self) -> None:
        """Apply the writes of a reconcile, when the status is written."""
        self.world._observe({})
        observed = self.world.observed
        assert observed.subject is not None
        if observed.asleep is SleepDepth.CLUSTER:
            self.ray, self.clusters, self.active, self.pending = None, {}, "", ""
            return
        if observed.rollout is None or not observed.rollout.replaces:
            made = build(observed.subject, PLATFORM)
            was = self.ray["metadata"]["generation"] if self.ray is not None else 0
            differs = self.ray is None or self.ray["spec"] != made["spec"]
            made["metadata"]["generation"] = was + differs
            self.ray = made
        observed = replace(observed, ray_service=self._ray_service())
        for name, bounds in cluster_bounds(observed).items():
            self.clusters[name].workers = any(most for _, most in bounds.values())
        if redundant_cluster(observed):
            self.pending = ""
        assert observed.gateway is not None
        used = frozenset(name for name in self.backends if name)
        for each in finished_clusters(replace(observed, gateway=replace(observed.gateway, clusters=used))):
            del self.clusters[each["metadata"]["name"]]

    def _make(self) -> str:
        assert self.ray is not None
        service, built = self.world.observed.subject, BuiltWith.of(self.ray)
        assert service is not None
        assert built is not None
        self.count += 1
        name = f"chat-{self.count:05}"
        annotations = self.ray["metadata"]["annotations"]
        image = str(service.spec.runtime.image)
        self.clusters[name] = Cluster(
            name, built, annotations, self.world.observed.now, image, tuple(service.spec.models)
        )
        return name

    @rule()
    def kuberay_looks(self) -> None:
        """Have KubeRay create a desired second cluster, and switch to it when it runs."""
        if self.ray is None:
            return
        self.observed = self.ray["metadata"]["generation"]
        desired, coming = BuiltWith.of(self.ray), self.pending or self.active
        assert desired is not None
        if not coming or self.clusters[coming].built.cluster != desired.cluster:
            self.pending = self._make()
        elif self.pending and self.clusters[self.pending].workers:
            self.active, self.pending = self.pending, ""

    @rule(seconds=st.sampled_from([0.0, 3.0, 20.0, 70.0]))
    def time_passes(self, seconds: float) -> None:
        self._look(seconds)

    @rule(seconds=st.sampled_from([0.0, 3.0, 20.0]))
    def who_is_asked_answers(self, seconds: float) -> None:
        requested = self.clusters.get(self.active)
        if requested is not None:
            self._look(seconds, {model: requested.answer(model) for model in self.ask})

    @rule(image=st.sampled_from(IMAGES), models=st.sampled_from(MODELS))
    def somebody_edits(self, image: str, models: tuple[Manifest, ...]) -> None:
        self.image, self.models = image, models
        self.world.edit_spec(*models, runtime={"image": image})
        self._look()

    @rule(room=st.booleans())
    def nodes_come_or_go(self, room: bool) -> None:
        self.world.observed = replace(self.world.observed, nodes=ROOMY if room else FULL)

    @precondition(lambda self: len(self.clusters) > 1)
    @rule()
    def an_hour_after_the_switch_kuberay_deletes_what_it_has_left(self) -> None:
        for name in [each for each in self.clusters if each not in (self.active, self.pending)]:
            del self.clusters[name]
        self._look()

    def _rounds(self, number: int) -> None:
        for _ in range(number):
            self._look(LOOK / 2)
            self.kuberay_looks()
            self.who_is_asked_answers(LOOK / 2)

    def teardown(self) -> None:
        """Let all pending actions finish, with no further change."""
        if getattr(self, "ask", None) is None:
            return
        self.world.observed = replace(self.world.observed, nodes=ROOMY)
        started: datetime | None = None
        bad = self.image in (NONSENSE, HALF)
        for _ in range(90):
            self._rounds(1)
            state, there = self.world.rollout, self.clusters.get(self.active)
            desired = there is not None and (there.image, not self.pending) == (self.image, True)
            if bad and started is None and desired and state["phase"] == "Progressing":
                started = self.world.observed.now
            if started is not None and self.world.observed.now - started > ERRORS + timedelta(seconds=20):
                assert state["phase"] in ("RollingBack", "RolledBack")
            if state["phase"] in ("Complete", "RolledBack") and self.backends == [self.active]:
                break
            if self.image == MUTE:
                self._look(300)
        last = self.world.rollout
        serving = self.clusters[str(self.backends[0])]
        if self.image in (NONSENSE, HALF, MUTE):
            assert last["phase"] == "RolledBack"
            assert serving.image not in (NONSENSE, HALF, MUTE)
        else:
            assert last["phase"] == "Complete"
            assert serving.image == self.image
        assert serving.workers
        names: set[Any] = {model.name for model in serving.models}
        gates = self.world.observed.status["gate"]["models"]
        assert {gate["name"] for gate in gates if gate["state"] == "Open"} == names


TestNonsense = Nonsense.TestCase
TestNonsense.settings = settings(stateful_step_count=12)
