"""ModelServer under any sequence of changes, with a simulated controller of its Deployment.

An answering pod is kept until another one has answered, and at the end the last working spec runs.
"""

from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from daybreak.api.gates.rollout import RolloutPhase
from daybreak.gates.traffic import Traffic
from daybreak.kinds.modelserver.objects.deployment import configuration
from daybreak.workloads.answer import Answer
from tests.budget import examples
from tests.unit.modelserver.rolling import ANSWERS, CRASHES, Rolling
from tests.unit.modelserver.servers import ASKED, QUIET

CRASHING, MUTE = "engine:crashes", "engine:mute"
"""One that never becomes ready, and one that does and never answers."""
IMAGES = ("engine:1", "engine:2", CRASHING, MUTE)
WORKS = ("engine:1", "engine:2")
HELD = Traffic(known=True, held=1, acknowledged=10**15, routed=True)
ROUNDS = 24


class ServerRollouts(RuleBasedStateMachine):
    """One pod, and at times a second one in addition."""

    @initialize()
    def begin(self) -> None:
        self.world = Rolling(image="engine:1", rollout={"deadline": "10m"})
        self.images: dict[str, str] = {}
        """The image of each configuration of pods."""
        for _ in range(4):
            self.time_passes(1)
        assert self.world.rollout["phase"] == RolloutPhase.COMPLETE

    @rule(seconds=st.sampled_from([1, 11, 700]))
    def time_passes(self, seconds: float) -> None:
        """Run a reconcile, and the resulting steps of Kubernetes."""
        world = self.world
        before = world.look()
        served = self._serves() and not before.asleep
        world.step(self._answers(), seconds=seconds)
        self._play_deployment()
        kept = world.look().sleep_state
        if served and kept is not None and kept.asleep is None:
            assert self._serves(), "what answered is gone, and nothing else answers"

    def _serves(self) -> bool:
        """Return True if a pod answers."""
        return any(
            self.images.get(configuration(pod)) in WORKS and pod["status"].get("containerStatuses") is None
            for pod in self.world.pods
        )

    def _answers(self) -> tuple[Answer, ...]:
        """Return answers of the current Deployment's pods with the current configuration."""
        there = {configuration(pod) for pod in self.world.pods}
        now = configuration(self.world.deployment) if self.world.deployment is not None else ""
        if now not in there:
            return ()
        return ANSWERS if self.images.get(now) in WORKS else (Answer("tiny", False, "it says 500"),)

    def _play_deployment(self) -> None:
        """Run one step of the Deployment's controller, and of the kubelet."""
        world = self.world
        assert world.deployment is not None
        desired, now = world.deployment["spec"]["replicas"], configuration(world.deployment)
        image = self.images.setdefault(now, world.image)
        if not desired:
            world.pods = []
            return
        new = [pod for pod in world.pods if configuration(pod) == now]
        if not new:
            status = {"containerStatuses": CRASHES} if image == CRASHING else {}
            world.pods.append(world.pod(ready=not status, **status))
        elif image != CRASHING and not world.held:
            world.pods = new  # ready, and so available: it takes the place of the others

    @rule(image=st.sampled_from(IMAGES))
    def somebody_edits(self, image: str) -> None:
        self.world.edit(image=image)

    @rule(strategy=st.sampled_from(["Auto", "BlueGreen", "Replace"]), paused=st.booleans())
    def somebody_changes_their_mind(self, strategy: str, paused: bool) -> None:
        self.world.edit(rollout={"deadline": "10m", "strategy": strategy, "paused": paused})

    @rule(traffic=st.sampled_from([ASKED, QUIET, HELD]))
    def clients_come_or_go(self, traffic: Traffic) -> None:
        self.world.traffic = traffic

    def teardown(self) -> None:
        """With no further change, it comes to rest, and every spec that can answer does."""
        if getattr(self, "world", None) is None:
            return
        world = self.world
        world.edit(rollout={"deadline": "10m"})
        world.traffic = HELD
        for _ in range(ROUNDS):
            self.time_passes(61)
            if not world.look().asleep and world.gate[1] == "Open":
                world.traffic = ASKED
        last = world.status
        self.time_passes(timedelta(hours=1).total_seconds())
        assert world.status == last, "it is at rest"
        assert self._serves()
        assert world.gate == ("Awake", "Open")
        works = world.spec["image"] in WORKS
        assert world.rollout["phase"] == (RolloutPhase.COMPLETE if works else RolloutPhase.ROLLED_BACK)
        assert self.images[configuration(world.pods[0])] in WORKS


TestServerRollouts = ServerRollouts.TestCase
TestServerRollouts.settings = settings(max_examples=examples(30), stateful_step_count=20, deadline=None)
