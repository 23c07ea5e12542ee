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


def test_the_first_revision_is_taken_and_answers() -> None:
    story = Story()
    assert short(story.step(serving=False)) == ("Progressing", "one", None, None)
    assert short(story.step(answers=True)) == ("Complete", "one", None, None)
    assert story.state is not None
    assert story.state.last_successful_revision == "one"


def test_replace_waits_until_what_ran_has_gone() -> None:
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


def test_two_clusters_where_there_is_room() -> None:
    story = Story(around=ROOMY).up()
    assert short(story.ask("two")) == ("Progressing", "two", None, "BlueGreen")
    assert short(story.step(beside=True)) == ("Progressing", "two", None, "BlueGreen")
    assert short(story.step(answers=True)) == ("Complete", "two", None, "BlueGreen")


def test_the_schedulers_word_counts() -> None:
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


def test_who_asks_for_two_clusters_waits_for_their_room() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two", strategy=RolloutStrategy.BLUE_GREEN)
    assert short(story.step(LATE, beside=True, no_room="none")) == ("Progressing", "two", None, "BlueGreen")


def test_an_edit_on_the_way_is_taken_at_once() -> None:
    story = Story().up()
    story.ask("two")
    assert short(story.ask("three")) == ("Progressing", "one", "three", "Replace")
    replaced(story)
    assert short(story.ask("four")) == ("Progressing", "three", "four", "Replace")
    replaced(story)
    assert short(story.step(answers=True)) == ("Complete", "four", None, "Replace")


def test_an_edit_that_is_taken_back_calls_the_replacement_off() -> None:
    story = Story().up()
    story.ask("two")
    state = story.ask("one")
    assert short(state)[:3] == ("Complete", "one", None)
    assert not state.replaces


def test_two_clusters_taken_back_while_the_first_serves() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    story.known.add("one")
    story.wish = Wish("one")
    assert short(story.step(beside=True)) == ("Progressing", "one", None, "BlueGreen")


def test_numbers_alone_are_no_rollout() -> None:
    story = Story(replace(PODS, pods=False, restarts=False)).up()
    assert short(story.ask("two", strategy=RolloutStrategy.REPLACE))[:3] == ("Progressing", "two", None)
    assert short(story.step(answers=True))[0] == "Complete"


def test_a_sleeping_one_takes_it_and_the_wake_is_its_trial() -> None:
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
def test_what_cannot_start_goes_back_by_the_same_road(how: str) -> None:
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


def test_in_place_goes_back_in_place() -> None:
    story = Story(ARGUMENTS).up()
    assert short(story.ask("two")) == ("Progressing", "two", None, "InPlace")
    assert short(story.step(LATE, stuck=BROKEN)) == ("RollingBack", "one", None, "InPlace")
    assert short(story.step(answers=True)) == ("RolledBack", "one", None, "InPlace")


def test_two_clusters_go_back_to_the_one_that_serves() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    assert short(story.step(LATE, beside=True, stuck=BROKEN)) == ("RollingBack", "one", None, "BlueGreen")


def test_an_edit_ends_the_way_back() -> None:
    story = Story().up()
    story.ask("two")
    replaced(story)
    story.step(LATE, serving=False, stuck=BROKEN)
    story.known.add("three")
    story.wish = Wish("three")
    assert short(story.step(serving=False)) == ("Progressing", "two", "three", "Replace")
    replaced(story)
    assert short(story.step(answers=True)) == ("Complete", "three", None, "Replace")


def test_pause_on_failure_stays_and_says_so() -> None:
    story = Story().up()
    story.ask("two", on_failure=OnFailure.PAUSE)
    replaced(story)
    state = story.step(LATE, serving=False, stuck=BROKEN)
    assert short(state)[:2] == ("Failed", "two")
    assert state.message == BROKEN
    assert short(story.step(answers=True))[:2] == ("Complete", "two"), "it may come right by itself"


def test_the_first_one_has_nothing_to_go_back_to() -> None:
    story = Story()
    story.step(serving=False)
    story.step(serving=False)
    state = story.step(LATE, serving=False, stuck=BROKEN)
    assert short(state)[0] == "Progressing", "what is in its way is told by Stalled"
    assert story.step(7200, serving=False, stuck=BROKEN) == state
    story.known.add("two")
    story.wish = Wish("two")
    assert short(story.step(serving=False)) == ("Progressing", "two", None, None), "a correction is taken"


def test_the_way_back_that_fails_ends_there() -> None:
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


def test_paused_begins_nothing() -> None:
    story = Story().up()
    state = story.ask("two", paused=True)
    assert short(state) == ("Paused", "one", "two", "Replace")
    assert "no GPU is free" in state.reason
    assert not state.replaces
    assert story.step(7200, answers=True) == state
    story.wish = replace(story.wish, paused=False)
    assert short(story.step(answers=True)) == ("Progressing", "one", "two", "Replace")


def test_what_is_paused_says_how_it_would_be_rolled_out_and_not_how_the_last_one_was() -> None:
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


def test_pausing_calls_off_what_has_taken_no_pod() -> None:
    story = Story().up()
    story.ask("two")
    state = story.ask("two", paused=True)
    assert (state.replaces, state.phase) == (False, RolloutPhase.PAUSED)


def test_in_place_that_needs_pods_is_blocked() -> None:
    story = Story().up()
    state = story.ask("two", strategy=RolloutStrategy.IN_PLACE)
    assert short(state)[:3] == ("Blocked", "one", "two")
    assert "needs new pods" in state.message
    assert short(story.ask("two", strategy=RolloutStrategy.AUTO)) == ("Progressing", "one", "two", "Replace")


def test_a_wish_that_is_refused_leaves_what_runs() -> None:
    story = Story().up()
    story.wish = replace(story.wish, refused="there is no revision 7")
    assert short(story.step(answers=True))[:3] == ("Blocked", "one", None)
    story.wish = Wish("one")
    assert short(story.step(answers=True))[0] == "Complete"


def test_an_outage_later_is_not_of_the_rollout() -> None:
    story = Story().up()
    story.ask("two")
    replaced(story)
    story.step(answers=True)
    assert short(story.step(7200, serving=False, stuck=BROKEN))[:2] == ("Complete", "two")


def test_without_the_content_of_the_old_one_what_is_asked_for_runs() -> None:
    before = RolloutState("gone", RolloutPhase.COMPLETE, last_successful_revision="gone")
    observed = Situation(revision="new", known={"new"}, changes={}, around=FULL, now=START)
    assert short(step(before, observed, Wish("new"))) == ("Progressing", "new", None, None)


def test_weights_are_copied_before_what_runs_is_disturbed() -> None:
    story = Story().up()
    story.known.add("two")
    story.wish = Wish("two")
    state = story.step(answers=True, preparing="its weights are being copied")
    assert short(state) == ("Preparing", "one", "two", "Replace")
    assert not state.replaces
    assert short(story.step(answers=True)) == ("Progressing", "one", "two", "Replace")


def test_the_clock_stands_while_weights_are_copied() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    assert story.step(7200, filling=True).start_time is None
    assert story.step().start_time == story.now


def test_time_is_looked_at_when_it_may_tell_something() -> None:
    story = Story().up()
    story.ask("two")
    replaced(story)
    assert story.state is not None
    observed = Situation(revision="two", known={"one", "two"}, changes={}, around=FULL, now=story.now)
    assert look_again(story.state, observed) == SETTLE
    assert look_again(story.state, replace(observed, now=story.now + SETTLE)) == observed.limit - SETTLE
    assert look_again(replace(story.state, phase=RolloutPhase.COMPLETE), observed) is None


NONSENSE = "model m: answered 200 without a completion"


def test_what_only_errs_has_failed_long_before_its_deadline() -> None:
    story = Story(around=ROOMY).up()
    story.ask("two")
    story.step(300, beside=True)
    errors = Errors(story.now, NONSENSE)
    last = ERRORS.total_seconds() - 1
    assert short(story.step(last, beside=True, errors=errors))[:2] == ("Progressing", "two")
    state = story.step(1, beside=True, errors=errors)
    assert short(state) == ("RollingBack", "one", None, "BlueGreen")
    assert state.message == f"it has answered with nothing but errors for 60 s: {NONSENSE}"


def test_errors_of_the_revision_before_do_not_count() -> None:
    story = Story(ARGUMENTS).up()
    before = Errors(story.now - timedelta(hours=1), NONSENSE)
    story.ask("two")
    assert short(story.step(LATE, errors=before))[0] == "Progressing"
    assert short(story.step(ERRORS.total_seconds() - LATE, errors=before))[0] == "RollingBack"


def test_errors_are_looked_at_when_they_have_lasted() -> None:
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


def test_a_way_back_without_room_is_a_replacement() -> None:
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
