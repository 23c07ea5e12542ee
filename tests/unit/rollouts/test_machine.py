"""Progress of a rollout: start, wait, and rollback."""

from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.api.gates.rollout import OnFailure, RolloutPhase, RolloutStrategy
from daybreak.rollouts.machine import ERRORS, SETTLE, Errors, RolloutState, Situation, Wish, look_again, step
from daybreak.rollouts.strategy import Change
from tests.unit.rollouts.situations import ARGUMENTS, FULL, PODS, ROOMY, START, Story

BROKEN = "model m: the engine says no"
LATE = SETTLE.total_seconds() + 1


def short(state: RolloutState) -> tuple[str, str, str | None, str | None]:
    """Return phase, revision, target and strategy."""
    return (
        state.phase.value,
        state.current_revision,
        state.target_revision,
        state.strategy and state.strategy.value,
    )


def replaced(story: Story) -> None:
    """Step until the running revision is gone, and the next one is built."""
    story.step(serving=False, vacated=True, changes={})


def test_first_revision_completes_with_its_first_answer() -> None:
    story = Story()
    assert short(story.step(serving=False)) == ("Progressing", "one", None, None)
    assert short(story.step(answers=True)) == ("Complete", "one", None, None)
    assert story.state is not None
    assert story.state.last_successful_revision == "one"


def test_replace_starts_target_only_after_old_cluster_is_deleted() -> None:
    story = Story().up()
    state = story.ask("two")
    assert short(state) == ("Progressing", "one", "two", "Replace")
    assert state.replaces
    assert story.step(300, serving=False) == state, "however long what runs takes"
    state = story.step(serving=False, vacated=True, changes={})
    assert short(state) == ("Progressing", "two", None, "Replace")
    assert not state.replaces
    assert state.start_time == story.now
    assert short(story.step(answers=True)) == ("Complete", "two", None, "Replace")


def test_blue_green_is_used_if_capacity_is_free() -> None:
    story = Story(around=ROOMY).up()
    assert short(story.ask("two")) == ("Progressing", "two", None, "BlueGreen")
    assert short(story.step(beside=True)) == ("Progressing", "two", None, "BlueGreen")
    assert short(story.step(answers=True)) == ("Complete", "two", None, "BlueGreen")


def test_rollout_switches_to_replace_if_second_cluster_is_unschedulable() -> None:
    """The scheduler knows more, so capacity may be smaller than estimated."""
    story = Story(around=ROOMY).up()
    story.ask("two")
    state = story.step(LATE, beside=True, no_room="0/3 nodes: 3 Insufficient nvidia.com/gpu")
    assert short(state) == ("Progressing", "one", "two", "Replace")
    assert "Insufficient" in state.reason
    # The object already has the next revision's spec, since that created the second Ray cluster.
    there = {"two": Change(pods=False, restarts=False)}
    assert story.step(beside=True, changes=there) == state, "it goes before the other one comes, all the same"
    replaced(story)
    assert short(story.step(answers=True)) == ("Complete", "two", None, "Replace")


def test_requested_blue_green_waits_for_capacity() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two", strategy=RolloutStrategy.BLUE_GREEN)
    assert short(story.step(LATE, beside=True, no_room="none")) == ("Progressing", "two", None, "BlueGreen")


def test_edit_during_rollout_becomes_the_new_target_at_once() -> None:
    story = Story().up()
    story.ask("two")
    assert short(story.ask("three")) == ("Progressing", "one", "three", "Replace")
    replaced(story)
    assert short(story.ask("four")) == ("Progressing", "three", "four", "Replace")
    replaced(story)
    assert short(story.step(answers=True)) == ("Complete", "four", None, "Replace")


def test_reverted_edit_cancels_the_replacement() -> None:
    story = Story().up()
    story.ask("two")
    state = story.ask("one")
    assert short(state)[:3] == ("Complete", "one", None)
    assert not state.replaces


def test_reverted_blue_green_returns_to_the_serving_revision() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    story.known.add("one")
    story.wish = Wish("one")
    assert short(story.step(beside=True)) == ("Progressing", "one", None, "BlueGreen")


def test_change_without_restart_is_applied_without_replacement() -> None:
    story = Story(replace(PODS, pods=False, restarts=False)).up()
    assert short(story.ask("two", strategy=RolloutStrategy.REPLACE))[:3] == ("Progressing", "two", None)
    assert short(story.step(answers=True))[0] == "Complete"


def test_sleeping_workload_takes_revision_and_rolls_back_if_wake_fails() -> None:
    story = Story().up()
    story.step(serving=False, asleep=True)
    story.known.add("two")
    story.wish = Wish("two")
    state = story.step(serving=False, asleep=True)
    assert short(state) == ("Progressing", "two", None, None)
    assert story.step(7200, serving=False, asleep=True).start_time is None, "its time begins with the wake"
    state = story.step(serving=False)
    assert state.start_time == story.now
    state = story.step(LATE, serving=False, stuck=BROKEN)
    assert short(state) == ("RollingBack", "two", "one", "Replace")
    replaced(story)
    assert short(story.step(answers=True))[:2] == ("RolledBack", "one")


@pytest.mark.parametrize("how", ["stuck", "late"])
def test_revision_that_cannot_start_is_rolled_back_by_replace(how: str) -> None:
    story = Story().up()
    story.ask("two")
    replaced(story)
    assert story.step(serving=False, stuck=BROKEN).phase is RolloutPhase.PROGRESSING, "that may be of before"
    limit = timedelta(minutes=5)
    pause, observed = (LATE, {"stuck": BROKEN}) if how == "stuck" else (limit.total_seconds(), {})
    state = story.step(pause, serving=False, limit=limit, **observed)
    assert short(state) == ("RollingBack", "two", "one", "Replace")
    assert (state.failed_revision, state.replaces) == ("two", True)
    assert (BROKEN if how == "stuck" else "within 300 s") in state.message
    replaced(story)
    state = story.step(answers=True)
    assert short(state) == ("RolledBack", "one", None, "Replace")
    assert story.step(7200, answers=True) == state, "and is not tried again"
    assert short(story.ask("three")) == ("Progressing", "one", "three", "Replace")
    assert story.state is not None
    assert (story.state.failed_revision, story.state.message) == (None, "")


def test_failed_in_place_rollout_is_rolled_back_in_place() -> None:
    story = Story(ARGUMENTS).up()
    assert short(story.ask("two")) == ("Progressing", "two", None, "InPlace")
    assert short(story.step(LATE, stuck=BROKEN)) == ("RollingBack", "one", None, "InPlace")
    assert short(story.step(answers=True)) == ("RolledBack", "one", None, "InPlace")


def test_failed_blue_green_rolls_back_to_the_serving_cluster() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    assert short(story.step(LATE, beside=True, stuck=BROKEN)) == ("RollingBack", "one", None, "BlueGreen")


def test_edit_during_rollback_starts_a_new_rollout() -> None:
    story = Story().up()
    story.ask("two")
    replaced(story)
    story.step(LATE, serving=False, stuck=BROKEN)
    story.known.add("three")
    story.wish = Wish("three")
    assert short(story.step(serving=False)) == ("Progressing", "two", "three", "Replace")
    replaced(story)
    assert short(story.step(answers=True)) == ("Complete", "three", None, "Replace")


def test_failed_rollout_stays_at_its_revision_with_on_failure_pause() -> None:
    story = Story().up()
    story.ask("two", on_failure=OnFailure.PAUSE)
    replaced(story)
    state = story.step(LATE, serving=False, stuck=BROKEN)
    assert short(state)[:2] == ("Failed", "two")
    assert state.message == BROKEN
    assert short(story.step(answers=True))[:2] == ("Complete", "two"), "it may come right by itself"


def test_first_revision_is_not_rolled_back() -> None:
    story = Story()
    story.step(serving=False)
    story.step(serving=False)
    state = story.step(LATE, serving=False, stuck=BROKEN)
    assert short(state)[0] == "Progressing", "what is in its way is told by Stalled"
    assert story.step(7200, serving=False, stuck=BROKEN) == state
    story.known.add("two")
    story.wish = Wish("two")
    assert short(story.step(serving=False)) == ("Progressing", "two", None, None), "a correction is taken"


def test_rollback_fails_if_previous_revision_cannot_start() -> None:
    story = Story().up()
    story.ask("two")
    replaced(story)
    story.step(LATE, serving=False, stuck=BROKEN)
    replaced(story)
    state = story.step(LATE, serving=False, stuck="no node")
    assert short(state)[:2] == ("Failed", "one")
    assert BROKEN in state.message
    assert "no node" in state.message
    assert short(story.step(answers=True))[:2] == ("RolledBack", "one")


def test_paused_rollout_does_not_start() -> None:
    story = Story().up()
    state = story.ask("two", paused=True)
    assert short(state) == ("Paused", "one", "two", "Replace")
    assert "no GPU is free" in state.reason
    assert not state.replaces
    assert story.step(7200, answers=True) == state
    story.wish = replace(story.wish, paused=False)
    assert short(story.step(answers=True)) == ("Progressing", "one", "two", "Replace")


def test_paused_rollout_reports_its_prospective_strategy() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    story.step(answers=True)
    story.around = FULL
    assert short(story.ask("three", paused=True)) == ("Paused", "two", "three", "Replace")
    story.around = ROOMY
    assert short(story.step(answers=True)) == ("Paused", "two", "three", "BlueGreen"), (
        "there is room meanwhile"
    )
    blocked = story.ask("three", strategy=RolloutStrategy.IN_PLACE)
    assert (short(blocked)[3], blocked.reason) == (None, "")
    # The user reverts the change: that revision was never rolled out.
    back = story.ask("two")
    assert (short(back), back.reason) == (("Complete", "two", None, None), "")


def test_pause_cancels_replacement_before_pods_are_deleted() -> None:
    story = Story().up()
    story.ask("two")
    state = story.ask("two", paused=True)
    assert (state.replaces, state.phase) == (False, RolloutPhase.PAUSED)


def test_in_place_rollout_that_needs_new_pods_is_blocked() -> None:
    story = Story().up()
    state = story.ask("two", strategy=RolloutStrategy.IN_PLACE)
    assert short(state)[:3] == ("Blocked", "one", "two")
    assert "needs new pods" in state.message
    assert short(story.ask("two", strategy=RolloutStrategy.AUTO)) == ("Progressing", "one", "two", "Replace")


def test_rejected_revision_blocks_rollout_and_keeps_current_revision() -> None:
    story = Story().up()
    story.wish = replace(story.wish, refused="there is no revision 7")
    assert short(story.step(answers=True))[:3] == ("Blocked", "one", None)
    story.wish = Wish("one")
    assert short(story.step(answers=True))[0] == "Complete"


def test_outage_after_completion_does_not_change_the_rollout() -> None:
    story = Story().up()
    story.ask("two")
    replaced(story)
    story.step(answers=True)
    assert short(story.step(7200, serving=False, stuck=BROKEN))[:2] == ("Complete", "two")


def test_requested_revision_runs_if_previous_content_is_lost() -> None:
    before = RolloutState("gone", RolloutPhase.COMPLETE, last_successful_revision="gone")
    observed = Situation(revision="new", known={"new"}, changes={}, around=FULL, now=START)
    assert short(step(before, observed, Wish("new"))) == ("Progressing", "new", None, None)


def test_rollout_copies_weights_before_replacing_current_revision() -> None:
    story = Story().up()
    story.known.add("two")
    story.wish = Wish("two")
    state = story.step(answers=True, preparing="its weights are being copied")
    assert short(state) == ("Preparing", "one", "two", "Replace")
    assert not state.replaces
    assert short(story.step(answers=True)) == ("Progressing", "one", "two", "Replace")


def test_rollout_time_does_not_start_while_weights_are_copied() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    assert story.step(7200, filling=True).start_time is None
    assert story.step().start_time == story.now


def test_rollout_is_checked_again_after_settle_time_and_at_deadline() -> None:
    story = Story().up()
    story.ask("two")
    replaced(story)
    assert story.state is not None
    observed = Situation(revision="two", known={"one", "two"}, changes={}, around=FULL, now=story.now)
    assert look_again(story.state, observed) == SETTLE
    assert look_again(story.state, replace(observed, now=story.now + SETTLE)) == observed.limit - SETTLE
    assert look_again(replace(story.state, phase=RolloutPhase.COMPLETE), observed) is None


NONSENSE = "model m: answered 200 without a completion"


def test_revision_that_returns_only_errors_rolls_back_before_deadline() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    story.step(300, beside=True)
    errors = Errors(story.now, NONSENSE)
    last = ERRORS.total_seconds() - 1
    assert short(story.step(last, beside=True, errors=errors))[:2] == ("Progressing", "two")
    state = story.step(1, beside=True, errors=errors)
    assert short(state) == ("RollingBack", "one", None, "BlueGreen")
    assert state.message == f"it has answered with nothing but errors for 60 s: {NONSENSE}"


def test_error_time_counts_only_from_the_start_of_the_revision() -> None:
    story = Story(ARGUMENTS).up()
    before = Errors(story.now - timedelta(hours=1), NONSENSE)
    story.ask("two")
    assert short(story.step(LATE, errors=before))[0] == "Progressing"
    assert short(story.step(ERRORS.total_seconds() - LATE, errors=before))[0] == "RollingBack"


def test_rollout_is_checked_again_when_error_period_ends() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    state = story.step(300, beside=True)
    errors = Errors(story.now - timedelta(seconds=20), NONSENSE)
    known = {"one", "two"}
    observed = Situation(revision="two", known=known, changes={}, around=ROOMY, errors=errors, now=story.now)
    assert look_again(state, observed) == ERRORS - timedelta(seconds=20)
    assert look_again(state, replace(observed, now=errors.since + ERRORS)) == observed.limit - timedelta(
        seconds=340
    )


def test_rollback_uses_replace_if_blue_green_has_no_capacity() -> None:
    """Regardless of the requested strategy, the previous working revision has priority."""
    story = Story(around=ROOMY).up()
    story.ask("two", strategy=RolloutStrategy.BLUE_GREEN)
    story.step(LATE, beside=True, stuck=BROKEN)
    assert story.state is not None
    assert short(story.state) == ("RollingBack", "one", None, "BlueGreen")
    early = story.step(1, beside=True, no_room="0/3 nodes")
    assert short(early)[3] == "BlueGreen", "that may still be of what has failed"
    state = story.step(LATE, beside=True, no_room="0/3 nodes")
    assert short(state) == ("RollingBack", "two", "one", "Replace")
    assert state.replaces
    assert BROKEN in state.message
    assert story.step(300, serving=False, beside=True) == state, "until the place is free"
    replaced(story)
    assert short(story.state) == ("RollingBack", "one", None, "Replace")
    assert short(story.step(answers=True))[:2] == ("RolledBack", "one")
