"""A whole kind behind a gateway in one file: the parts of a kind, and a run in the shared loop."""

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.common.conditions import Condition, Reason
from daybreak.api.common.owned import owned_metadata
from daybreak.api.common.unstructured import Manifest
from daybreak.api.gates.access import Access
from daybreak.api.gates.gate_status import GateBackend, GateStatus, ModelGate
from daybreak.api.gates.protocol import Protocol
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.gates.sleep import Hold, Sleep, State
from daybreak.api.ray.model import Model
from daybreak.api.ray.runtime import Runtime
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.resource import GROUP, VERSION, Resource
from daybreak.controller.owner_kind import OwnerKind
from daybreak.gates.traffic import AgedReport, ModelReports
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kube.watching.cache import Cache
from daybreak.loop import observer, reconciler
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.owner import Owner
from daybreak.manifests.plan import Live, Plan, Target
from daybreak.manifests.resources import DEPLOYMENTS, PODS
from daybreak.problems.problem import Problem
from daybreak.protocol.reports import Report
from daybreak.ray.views.ray_pods import PodView
from daybreak.scheduling import fit
from daybreak.scheduling.fit import Misfit, Question
from daybreak.scheduling.nodes import Node
from daybreak.workloads import observed, report, view
from daybreak.workloads.kind_functions import KindFunctions
from daybreak.workloads.outcome import Outcome
from daybreak.workloads.rolled import Course
from tests.parts import parts
from tests.unit.llmservice.decide.scenes.services import PLATFORM
from tests.unit.llmservice.test_many import Server

TOYS = Resource(GROUP, VERSION, "Toy", "toys")
ONE = Key("default", "ball")
UP = [{"type": "Ready", "status": "True"}]


# The spec, and the object that the operator works with.


class ToySpec(ApiModel):
    """Spec, as a user writes it."""

    sleep: Sleep | None = None
    state: State | None = None
    hold: Hold | None = None
    access: Access | None = None


@dataclass(frozen=True)
class Toy:
    """A Toy: identity and spec."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: ToySpec
    protocol = Protocol.V2

    @property
    def owner(self) -> str:
        """Return the value of the owner label of the Toy's objects."""
        return self.name

    @property
    def sleeps(self) -> Mapping[str, Sleep | None]:
        """Return the sleep setting, by the name of the only gate."""
        return {self.name: self.spec.sleep}

    def starts_asleep(self, gate: str) -> bool:
        """Return False: a new Toy starts awake."""
        return False

    @property
    def workload(self) -> RayWorkload:
        """Return the workload with the pods of the Toy."""
        pod = Model.model_validate(
            {"name": self.name, "source": "file:///none", "accelerator": {"kind": "cpu"}}
        )
        return RayWorkload(self.name, [pod], Runtime())


class ToyStatus(ApiModel):
    """Status, as the operator reports it."""

    observed_generation: int
    phase: str
    phase_transition_time: str | None = None
    access: str | None = None
    gate: GateStatus | None = None
    savings: SavingsStatus | None = None
    conditions: list[Condition]
    pods: int = 0


# Observation.


@dataclass(frozen=True)
class Observed(observed.OneGate[Toy]):
    """Observed Toy and its surroundings."""

    def misfits_of(self, subject: Toy, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """Return the pods that fit on no node."""
        return fit.fit(subject.workload, nodes, head=False)


class Observer(observer.Observer[Observed]):
    """Observer that reads the cache."""

    resource = TOYS

    def read(self, manifest: Manifest, now: datetime) -> Observed:
        """Read a manifest."""
        metadata = manifest["metadata"]
        spec = ToySpec.model_validate(manifest["spec"])
        toy = Toy(metadata["name"], metadata["namespace"], metadata["uid"], 1, spec)
        return Observed(manifest, toy, (), now)

    def objects(self, key: Key, observed: Observed) -> Observed:
        """Add nothing: the pods of every workload are observed anyway."""
        return observed

    def questions(self, subject: Toy) -> Sequence[Question]:
        """Return the questions about the nodes."""
        return fit.questions(subject.workload, head=False)


# Assessment.


class View(view.View[Observed, Toy]):
    """Assessed Toy: it serves when a pod is ready."""

    noun = "toy"
    kind = TOYS.kind
    fits = "its pod"
    ask = False
    silent = ""
    missing = ""
    updating = False
    made = True
    drain = timedelta(seconds=5)
    doing = "its pod is starting"
    problem: Problem | None = None

    @property
    def url(self) -> str:
        """Return the address at which the Toy is probed."""
        return names.address(self.subject.name, self.subject.namespace)

    @property
    def current_pods(self) -> Sequence[PodView]:
        """Return the pods that count."""
        return [pod for pod in self.pods if pod.counts]

    @property
    def answering(self) -> bool:
        """Return True if a pod is ready."""
        return any(pod.ready for pod in self.current_pods)


def course(found: View) -> Course:
    """Return what is known of a change: it keeps no revisions, so none is ever asked for."""
    raise AssertionError(found)


def status(found: View, outcome: Outcome) -> ToyStatus:
    """Return the status of the Toy."""
    pods = GateBackend(cluster=found.subject.owner, port=8000)
    return ToyStatus(**report.common(found, outcome, [pods]).fields(), pods=len(found.current_pods))


def as_before(observed: Observed, reason: Reason, message: str) -> ToyStatus:
    """Return the status of an invalid Toy."""
    return report.as_before(ToyStatus, observed, reason, message)


def view_of(observed: Observed, blocked: Problem | None = None) -> View:
    """Assess an observed Toy."""
    assert observed.subject is not None
    return View(observed, observed.subject, blocked)


FUNCTIONS = KindFunctions(TOYS.kind, view_of, status, as_before, course)


# Objects.


class Reconciler(reconciler.Reconciler[Observed, View, Plan]):
    """Builder of the Deployment."""

    def objects(self, observed: Observed) -> Sequence[dict[str, Any]]:
        """Return its Deployment, without pods while it sleeps."""
        toy = observed.subject
        assert toy is not None
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": owned_metadata(TOYS.kind, toy, f"{toy.name}-toy", "toy"),
            "spec": {"replicas": 0 if observed.asleep else 1},
        }
        return [deployment]

    def plan(self, observed: Observed, desired: Sequence[dict[str, Any]], live: Live) -> Plan:
        """Return the plan for the Deployment, given the existing one."""
        assert observed.subject is not None
        surplus = live.surplus(Owner(TOYS, ONE, observed.subject.uid), [DEPLOYMENTS], desired)
        targets = tuple(Target(each, live.find(each)) for each in desired)
        return Plan(targets, tuple(surplus), (), leaving=False)


# The kind, run by the shared loop.


class Gateways:
    """Fake source of one gateway, with a report that a test sets."""

    def __init__(self) -> None:
        self.held = 0
        self.idle_ms = 0
        self.epoch = 0

    def received(self, _: OwnerKey) -> tuple[ModelReports | None, ...]:
        gate = Report(self.epoch, "closed", 0, self.held, 0, self.idle_ms, 1)
        return ({"ball": AgedReport(gate, timedelta(0))},)

    def remains(self, _: str) -> bool:
        return True


class Merging(Server):
    """Fake API server that keeps the spec when a status is written."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        self.spec = spec

    def stored(self, found: dict[str, Any]) -> dict[str, Any]:
        """Add the fields that the API server sets."""
        kept = {"spec": self.spec} if found.get("kind") == TOYS.kind else {}
        return super().stored({**found, **kept})


class World:
    """API server's objects, and the loop."""

    def __init__(self, **spec: Any) -> None:
        self.cache, self.gateways, self.server = Cache(), Gateways(), Merging(spec)
        around = parts(self.cache, SimpleNamespace(nodes_known=False), PLATFORM, self.server)
        watched = Observer(around, self.gateways, PortAllocator(self.cache))
        self.kind = OwnerKind(
            TOYS, self.cache, [DEPLOYMENTS, PODS], Reconciler(around, watched, FUNCTIONS, [DEPLOYMENTS])
        )
        metadata = {"name": ONE.name, "namespace": ONE.namespace}
        self.cache.put(TOYS, self.server.stored({"kind": TOYS.kind, "metadata": metadata}))

    async def reconcile(self, times: int = 3) -> None:
        """Reconcile until no further reconcile is due."""
        for _ in range(times):
            await self.kind.reconcile(ONE)

    def pod(self, conditions: Collection[Mapping[str, str]]) -> None:
        """Set the state of the Toy's pod."""
        labels = names.labels("toy.ball", "toy")
        metadata = {"name": "ball-1", "namespace": "default", "labels": labels}
        found = {
            "metadata": metadata,
            "spec": {"nodeName": "a"},
            "status": {"phase": "Running", "conditions": list(conditions)},
        }
        self.cache.put(PODS, self.server.stored(found))

    def age(self) -> None:
        """Move the times of the gate's status one hour into the past."""
        found = self.cache.get(TOYS, ONE)
        assert found is not None
        aged = copy.deepcopy(found)
        [gate] = aged["status"]["gate"]["models"]
        gate["phaseTransitionTime"] = "2026-01-01T00:00:00Z"
        self.cache.put(TOYS, self.server.stored(aged))

    @property
    def status(self) -> dict[str, Any]:
        """Return the status of the Toy."""
        found = self.cache.get(TOYS, ONE)
        assert found is not None
        return dict(found["status"])

    @property
    def gate(self) -> ModelGate:
        """Return the gate of the Toy."""
        return ModelGate.model_validate(self.status["gate"]["models"][0])

    @property
    def replicas(self) -> int:
        """Return the number of pods that the Deployment requests."""
        found = self.cache.get(DEPLOYMENTS, Key("default", "ball-toy"))
        assert found is not None
        return int(found["spec"]["replicas"])


@pytest.fixture(autouse=True)
def prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the kind in labels."""
    monkeypatch.setitem(names.OWNER_PREFIXES, TOYS.kind, "toy.")


async def test_shared_loop_brings_up_toy_kind_and_then_stops_writing() -> None:
    world = World(sleep={"afterIdle": "10m"})
    await world.reconcile()
    assert (world.gate.phase, world.replicas, world.status["pods"]) == ("Waking", 1, 0)

    world.pod(UP)
    world.gateways.epoch = world.gate.epoch
    await world.reconcile()
    assert (world.gate.phase, world.gate.state, world.status["pods"]) == ("Awake", "Open", 1)
    before = list(world.server.requested)
    await world.reconcile()
    assert world.server.requested == before, "an unchanged spec leads to no writes"


async def test_toy_kind_sleeps_when_idle_and_wakes_on_request() -> None:
    world = World(sleep={"afterIdle": "1s"})
    world.pod(UP)
    await world.reconcile()
    world.gateways.epoch, world.gateways.idle_ms = world.gate.epoch, 3_600_000
    world.age()
    await world.reconcile()
    world.gateways.epoch = world.gate.epoch
    await world.reconcile()
    assert (world.gate.phase, world.replicas) == ("Asleep", 0)

    world.gateways.held = 1
    await world.reconcile()
    assert (world.gate.phase, world.replicas) == ("Awake", 1), "its pod is played as ready"
