"""Step-by-step simulation of changes of a ModelServer: each reconcile observes the previous decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from daybreak.api.common import names
from daybreak.api.modelserver.definition import ModelServer
from daybreak.gates.traffic import Traffic
from daybreak.kinds.modelserver.decide.rollout import unproven
from daybreak.kinds.modelserver.objects.deployment import configuration, deployment
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.rollouts.revisions import Revision
from daybreak.workloads.answer import Answer
from tests.unit.modelserver.decision import Decision, decide
from tests.unit.modelserver.servers import ASKED, NOW, PLATFORM, observe, pod

ANSWERS = (Answer("tiny", True),)
HELD = Traffic(known=True, held=2, acknowledged=10**15, routed=True)
CRASHES = [
    {
        "name": "engine",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no such model"}},
    }
]
NO_IMAGE = [{"name": "engine", "image": "x", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]


class Rolling:
    """A server, and the observed part of its cluster.

    Args:
        spec: Fields of the server's spec.
    """

    def __init__(self, **spec: Any) -> None:
        self.spec = spec
        self.status: dict[str, Any] | None = None
        self.known: tuple[Revision, ...] = ()
        self.deployment: dict[str, Any] | None = None
        self.pods: list[dict[str, Any]] = []
        self.annotations: dict[str, str] = {}
        self.now = NOW
        self.traffic: Traffic | None = ASKED
        self.nodes: tuple[Any, ...] | None = None
        self.booked: Mapping[str, Mapping[str, Decimal]] | None = None

    def look(self, answers: Sequence[Answer] = (), **more: Any) -> Observed:
        """Return the current observation."""
        found = observe(
            self.status,
            *self.pods,
            traffic=self.traffic,
            now=self.now,
            spec=self.spec,
            known=self.known,
            annotations=self.annotations,
            deployment=self.deployment,
            answers=tuple(answers),
            nodes=self.nodes,
        )
        return replace(found, booked=self.booked, **more)

    def step(self, answers: Sequence[Answer] = (), seconds: float = 1, **more: Any) -> Decision:
        """Reconcile after this number of seconds: write the Deployment as decided before, and the status."""
        self.now += timedelta(seconds=seconds)
        before = self.look(answers, **more)
        if before.subject is not None and before.history is not None and not before.problems:
            number = 0 if before.asleep else 1
            made = deployment(before.subject, PLATFORM, number, unproven=unproven(before.history.state))
            made["metadata"]["generation"] = 1
            self.deployment = made | {"status": {"observedGeneration": 1}}
            self.known = before.history.revisions
        decision = decide(self.look(answers, **more))
        self.status = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        return decision

    def up(self) -> "Rolling":
        """Simulate a pod that answers its probe."""
        self.step()
        self.pods = [self.pod()]
        self.step(ANSWERS)
        assert self.rollout["phase"] == "Complete"
        return self

    def edit(self, **spec: Any) -> None:
        """Change the spec."""
        self.spec = {**self.spec, **spec}

    def pod(self, *, ready: bool = True, **status: Any) -> dict[str, Any]:
        """Return a pod as the Deployment currently creates it."""
        return pod(self.server, ready=ready, runs=configuration(self.deployment), **status)

    @property
    def server(self) -> ModelServer:
        """Return the parsed server."""
        subject = self.look().subject
        assert subject is not None
        return subject

    @property
    def image(self) -> str:
        """Return the image of the Deployment's pods."""
        assert self.deployment is not None
        [container] = self.deployment["spec"]["template"]["spec"]["containers"]
        return str(container["image"])

    @property
    def held(self) -> bool:
        """Return True if running pods stay although new pods are ready."""
        assert self.deployment is not None
        return "minReadySeconds" in self.deployment["spec"]

    @property
    def rollout(self) -> dict[str, Any]:
        """Return the status of the rollout."""
        assert self.status is not None
        found: dict[str, Any] = self.status["rollout"]
        return found

    @property
    def proven(self) -> str:
        """Return the configuration that pods must run to get requests, or an empty string for any."""
        assert self.status is not None
        [backend] = self.status["gate"]["backends"]
        return str(backend.get("configurationHash", ""))

    @property
    def gate(self) -> tuple[str, str]:
        """Return the gate's phase and state."""
        assert self.status is not None
        [gate] = self.status["gate"]["models"]
        return gate["phase"], gate["state"]

    def says(self, kind: str) -> tuple[str, str, str]:
        """Return the status, reason and message of a condition."""
        assert self.status is not None
        [found] = [each for each in self.status["conditions"] if each["type"] == kind]
        return found["status"], found["reason"], found["message"]

    def pause(self, on: bool) -> None:
        """Pause rollouts, or resume them."""
        self.annotations = {names.ROLLOUT_PAUSED_ANNOTATION: "true"} if on else {}


def replaced(world: Rolling) -> None:
    """Drain the running pods, delete them, and request the next ones."""
    world.traffic = replace(ASKED, held=1)
    world.step()
    assert world.gate == ("Replacing", "Closed")
    assert world.look().sleep_state is not None
    assert not world.look().asleep, "a request is in flight"
    world.traffic = HELD
    world.step()
    assert world.look().asleep
    assert world.says("Ready")[:2] == ("True", "Replacing")
    world.step()
    assert world.gate[0] == "Replacing", "pods are there"
    world.pods = []
    world.step()
    assert world.gate == ("Waking", "Closed")
