"""A ModelServer that is changed, played step by step: what is decided stands in the next look."""

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
from tests.unit.modelserver.servers import ASKED, NOW, PLATFORM, pod, seen

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
    """It, and the cluster as far as it is seen of it.

    Args:
        spec: Fields of its spec.
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
        """What is seen at this moment."""
        found = seen(
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
        """A reconcile, that much later: the Deployment is written as was decided before, and the status."""
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
        """It has answered."""
        self.step()
        self.pods = [self.pod()]
        self.step(ANSWERS)
        assert self.rollout["phase"] == "Complete"
        return self

    def edit(self, **spec: Any) -> None:
        """Somebody changes its spec."""
        self.spec = {**self.spec, **spec}

    def pod(self, *, ready: bool = True, **status: Any) -> dict[str, Any]:
        """A pod as the Deployment makes them now."""
        return pod(self.server, ready=ready, runs=configuration(self.deployment), **status)

    @property
    def server(self) -> ModelServer:
        """It, as it is built."""
        subject = self.look().subject
        assert subject is not None
        return subject

    @property
    def image(self) -> str:
        """The image that the Deployment's pods have."""
        assert self.deployment is not None
        [container] = self.deployment["spec"]["template"]["spec"]["containers"]
        return str(container["image"])

    @property
    def held(self) -> bool:
        """Whether the pods that run stay although new ones are ready."""
        assert self.deployment is not None
        return "minReadySeconds" in self.deployment["spec"]

    @property
    def rollout(self) -> dict[str, Any]:
        """What is said of the change."""
        assert self.status is not None
        found: dict[str, Any] = self.status["rollout"]
        return found

    @property
    def proven(self) -> str:
        """What pods have to run that get requests; empty: anything."""
        assert self.status is not None
        [backend] = self.status["gate"]["backends"]
        return str(backend.get("configurationHash", ""))

    @property
    def gate(self) -> tuple[str, str]:
        """Phase, and the gate's state."""
        assert self.status is not None
        [gate] = self.status["gate"]["models"]
        return gate["phase"], gate["state"]

    def says(self, kind: str) -> tuple[str, str, str]:
        """A condition: status, reason and message."""
        assert self.status is not None
        [found] = [each for each in self.status["conditions"] if each["type"] == kind]
        return found["status"], found["reason"], found["message"]

    def pause(self, on: bool) -> None:
        """Somebody pauses rollouts, or resumes them."""
        self.annotations = {names.ROLLOUT_PAUSED_ANNOTATION: "true"} if on else {}


def replaced(world: Rolling) -> None:
    """What runs ends, the pods go, and the next ones are asked for."""
    world.traffic = replace(ASKED, held=1)
    world.step()
    assert world.gate == ("Replacing", "Closed")
    assert world.look().sleep_state is not None
    assert not world.look().asleep, "somebody is being answered"
    world.traffic = HELD
    world.step()
    assert world.look().asleep
    assert world.says("Ready")[:2] == ("True", "Replacing")
    world.step()
    assert world.gate[0] == "Replacing", "pods are there"
    world.pods = []
    world.step()
    assert world.gate == ("Waking", "Closed")
