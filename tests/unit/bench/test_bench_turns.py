"""The benchmark of shared accelerators: its hour, its reference schedule, and the summary of its runs."""

from collections import Counter

import pytest

from bench.operator.turns_arrivals import HOUR, Request, Shape, arrivals
from bench.operator.turns_schedule import Fleet, omniscient, play, unlimited, within

ONE = Fleet(gpus=1, wake=3.0)
FOREVER = float("inf")


class TestHour:
    def test_arrivals_are_repeatable_for_seed_and_scaled_by_compression(self) -> None:
        real, played = arrivals(Shape(), 1, 7), arrivals(Shape(), 10, 7)
        assert played == arrivals(Shape(), 10, 7) != arrivals(Shape(), 10, 8)
        assert [(each.at, each.seconds) for each in played] == pytest.approx(
            [(each.at / 10, each.seconds / 10) for each in real]
        )
        assert all(0 <= each.at < HOUR for each in real)
        assert [each.at for each in real] == sorted(each.at for each in real)

    def test_every_service_gets_sessions_and_first_services_get_most(self) -> None:
        sessions = {each.session: each.service for each in arrivals(Shape(sessions=400), 1, 7)}
        requested = Counter(sessions.values())
        assert set(requested) == set(range(20))
        assert requested[0] > 2 * requested[4] > 2 * requested[19]


class TestSchedule:
    def test_omniscient_schedule_wakes_service_before_first_request(self) -> None:
        found = omniscient([Request(0, 0, 5.0, 2.0)], ONE, 60)
        assert found.longest_wait < 0.2
        assert found.busy == pytest.approx(2.0)
        assert found.wakes == 1

    def test_second_service_waits_for_gpu_and_wake(self) -> None:
        requests = [Request(0, 0, 0.0, 2.0), Request(1, 1, 0.0, 2.0)]
        found = omniscient(requests, ONE, 60)
        assert found.longest_wait == pytest.approx(2.0 + ONE.wake, abs=0.4)
        assert omniscient(requests, Fleet(gpus=2, wake=3.0), 60).longest_wait < 0.2

    def test_all_requests_are_served_with_short_or_unlimited_turn(self) -> None:
        requests = arrivals(Shape(), 10, 3)
        total = sum(each.seconds for each in requests)
        for turn in (5.0, FOREVER):
            found = play(requests, Fleet(gpus=2, wake=3.0), 10_000, 10.0, 1.5, turn)
            assert found.busy == pytest.approx(total)

    def test_schedule_never_exceeds_bound_of_unlimited_gpus(self) -> None:
        for seed in range(3):
            requests = arrivals(Shape(), 10, seed)
            assert omniscient(requests, Fleet(gpus=2, wake=3.0), 360).busy <= unlimited(requests, 360) + 1e-6

    def test_only_time_within_hour_is_counted(self) -> None:
        assert (within(-1, 2, 10), within(8, 12, 10), within(11, 12, 10)) == (2, 2, 0)
