"""An update without spare capacity, compared with an upgrade of KubeRay: the goals of both."""

from bench import report
from bench.cluster import replace


def test_kuberay_upgrade_without_room_meets_goal_only_if_unfinished() -> None:
    goal = replace.GOALS["kuberay_without_room_ended"]

    assert report.met(0, goal)
    assert not report.met(1, goal)


def test_each_goal_has_its_measure() -> None:
    names = ("sent", "failed", "ended", "seconds", "added_p99_seconds")
    each: dict[str, float] = dict.fromkeys(names, 1)
    ways = ("daybreak_replace", "daybreak_blue_green", "kuberay_with_room", "kuberay_without_room")

    assert set(replace.GOALS) <= set(replace._measures({way: dict(each) for way in ways}))
