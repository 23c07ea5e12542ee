"""For any sequence of spec changes, including ones that cannot start: the last spec that works runs."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from daybreak.api.gates.rollout import OnFailure, RolloutPhase, RolloutStrategy
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.revisions import applied, built_of, content, with_own
from daybreak.rollouts.machine import ERRORS, Errors, RolloutState, Situation, Wish, step
from daybreak.rollouts.strategy import Change, Surroundings
from tests.property.services import services
from tests.unit.rollouts.situations import START

REVISIONS = ("one", "two", "three", "four", "five")
BROKEN = ("three", "four")
"""Revisions that cannot start."""
ERRING = ("five",)
"""Revisions that start, and answer nonsense."""
POD_CHANGES = {"one": 1, "two": 1, "three": 1, "four": 2, "five": 3}
"""Pod template of each revision: revisions with the same number differ in place."""
ROUNDS = 12

revisions = st.sampled_from(REVISIONS)


class Rollouts(RuleBasedStateMachine):
    """A workload that runs one revision in at most two Ray clusters, on nodes with room for one or two."""

    @initialize(first=st.sampled_from(["one", "two"]), room=st.booleans())
    def begin(self, first: str, room: bool) -> None:
        self.now, self.room = START, room
        self.wish = Wish(first)
        self.state: RolloutState | None = None
        self.cluster: str | None = None
        """The revision of the Ray cluster that serves, or is to."""
        self.second: str | None = None
        """Revision of a second Ray cluster that is starting."""
        self.first: str | None = None
        """Revision of the Ray cluster that still receives requests after KubeRay has switched to another."""
        self.erring_since: datetime | None = None
        self.asleep = False
        self.held_open = False
        for _ in range(ROUNDS):
            self.time_passes(20)

    def _works(self, revision: str | None) -> bool:
        return revision is not None and revision not in (*BROKEN, *ERRING)

    def _situation(self) -> Situation:
        built = self.state.current_revision if self.state is not None else self.wish.revision
        coming = self.second or self.cluster
        changes = {}
        if coming is not None:
            for each in REVISIONS:
                pods = POD_CHANGES[each] != POD_CHANGES[coming]
                changes[each] = Change(pods=pods, restarts=each != coming)
        short = self.second is not None and not self.room
        errs = coming == built and built in ERRING and self.erring_since is not None and not self.asleep
        return Situation(
            revision=built,
            known=REVISIONS,
            changes=changes,
            around=Surroundings(serving=self.answering, holds=True, crowded="" if self.room else "full"),
            answers=coming == built and self._works(built) and self.second is None and not self.asleep,
            asleep=self.asleep,
            vacated=self.cluster is None and self.state is not None and self.state.replaces,
            beside=self.second is not None or self.first is not None,
            no_room="no room" if short else "",
            stuck="it cannot start" if coming == built and built in BROKEN and not short else "",
            errors=Errors(self.erring_since, "nonsense") if errs and self.erring_since else None,
            limit=timedelta(minutes=15),
            now=self.now,
        )

    @property
    def answering(self) -> bool:
        """Return True if requests are answered."""
        closed = self.state is not None and self.state.replaces
        return self._works(self.first or self.cluster) and not closed and not self.asleep

    def _carry_out(self) -> None:
        """Apply the decision as KubeRay, Serve and the gates do."""
        assert self.state is not None
        if self.state.replaces:
            self.cluster = self.second = self.first = self.erring_since = None
            return
        built = self.state.current_revision
        if (
            self.cluster is None
            or POD_CHANGES[self.cluster] == POD_CHANGES[built]
            or self.cluster in BROKEN
            or self.asleep
        ):
            self.cluster, self.second = built, None
            self.first = None if self.asleep or self._works(built) else self.first
        elif self.cluster != built:
            self.second = built
            if self.room and self._works(built):
                self.cluster, self.second, self.first = built, None, None
            elif self.room and built in ERRING:
                self.cluster, self.second, self.first = built, None, self.first or self.cluster
        else:
            self.second = None
        if self.cluster not in ERRING:
            self.erring_since = None
        elif self.erring_since is None:
            self.erring_since = self.now

    @rule(seconds=st.sampled_from([1, 20, 300, 1000]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        before = self.state
        self.state = step(self.state, self._situation(), self.wish)
        if before is not None and before.current_revision != self.state.current_revision:
            assert not before.replaces or self.cluster is None, "nothing is built before what ran has gone"
        self._carry_out()

    @rule(revision=revisions)
    def somebody_edits(self, revision: str) -> None:
        self.wish = Wish(revision, self.wish.strategy, self.wish.on_failure, self.wish.paused)

    @rule(strategy=st.sampled_from(RolloutStrategy), paused=st.booleans(), failure=st.sampled_from(OnFailure))
    def somebody_changes_their_mind(
        self, strategy: RolloutStrategy, paused: bool, failure: OnFailure
    ) -> None:
        self.wish = Wish(self.wish.revision, strategy, failure, paused)

    @rule(room=st.booleans())
    def nodes_come_or_go(self, room: bool) -> None:
        self.room = room

    @rule()
    def it_falls_asleep_or_wakes(self) -> None:
        assert self.state is not None
        if not self.state.replaces:
            self.asleep = not self.asleep

    @invariant()
    def what_failed_is_not_what_is_built_for_good(self) -> None:
        if getattr(self, "state", None) is None:
            return
        assert self.state is not None
        if self.state.phase is RolloutPhase.ROLLED_BACK:
            assert (
                self.state.current_revision
                == self.state.last_successful_revision
                != self.state.failed_revision
            )
        if self.state.phase is RolloutPhase.COMPLETE:
            assert self.state.current_revision == self.state.last_successful_revision

    def teardown(self) -> None:
        """With no further change, it comes to rest, and every spec that can answer does."""
        if getattr(self, "state", None) is None:
            return
        self.wish = Wish(self.wish.revision)
        self.asleep = False
        for _ in range(ROUNDS):
            self.time_passes(ERRORS.total_seconds())
        assert self.state is not None
        last = self.state
        self.time_passes(3600)
        assert self.state == last, "it is at rest"
        assert self.answering
        if self._works(self.wish.revision):
            assert (last.phase, last.current_revision) == (RolloutPhase.COMPLETE, self.wish.revision)
        else:
            assert last.phase is RolloutPhase.ROLLED_BACK


TestRollouts = Rollouts.TestCase


@given(services(), services())
def test_revision_restores_recorded_models_and_runtime(old: LLMService, new: LLMService) -> None:
    revision, known = with_own(old, ())
    back = built_of(new, revision)
    assert back is not None
    assert (back.spec.models, back.spec.runtime) == (old.spec.models, old.spec.runtime)
    assert content(back) == revision.data
    assert with_own(back, known)[0] == revision
    built = applied(new, revision.name, known)
    assert built is None or (built.spec.models, built.spec.runtime) == (old.spec.models, old.spec.runtime)
