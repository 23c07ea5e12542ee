"""The combined reports of several gateways, and the wire form of one report."""

from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.gates.traffic import (
    UNKNOWN,
    AgedReport,
    ModelReports,
    Pause,
    Traffic,
    clusters_in_use,
    named,
    together,
)
from daybreak.protocol.reports import Report, Update

QUIET = Report(epoch=4, gate="open", arrivals=7, held=0, in_flight=0, idle_ms=60_000, servers_up=1)
BUSY = Report(epoch=3, gate="closed", arrivals=9, held=2, in_flight=3, idle_ms=500, servers_up=0)


def observe(report: Report, age: float = 0) -> ModelReports:
    """Return a gateway's report about model m."""
    return {"m": AgedReport(report, timedelta(seconds=age))}


def test_traffic_combines_reports_of_two_gateways() -> None:
    assert together([observe(QUIET), observe(BUSY)], "m") == Traffic(
        known=True,
        held=2,
        in_flight=3,
        idle=timedelta(seconds=0.5),
        acknowledged=3,
        routed=True,
        requested=timedelta(seconds=0.5),
    )


def test_held_time_is_that_of_oldest_request_at_any_gateway() -> None:
    older, younger = replace(BUSY, held_ms=9_000), replace(BUSY, held_ms=4_000)
    assert together([observe(older, 1), observe(younger, 7), observe(QUIET)], "m").held_for == timedelta(
        seconds=11
    )
    # A previous gateway version does not report the age; a gateway without held requests has none.
    assert together([observe(BUSY), observe(younger, 1)], "m").held_for == timedelta(seconds=5)
    assert together([observe(BUSY), observe(replace(younger, held=0))], "m").held_for is None
    # A request with an unreadable model name may be for this model.
    front = {"m": observe(younger)["m"], "": observe(older)["m"]}
    assert together([front], "m", ["m"]).held_for == timedelta(seconds=9)


@pytest.mark.parametrize(
    ("reported", "read"),
    [(1500, 1500), (0, 0), (None, None), (-1, None), (True, None), ("9", None), (10**30, 86_400_000)],
)
def test_reported_held_time_is_validated_and_capped(reported: object, read: int | None) -> None:
    assert Report.parse({**BUSY.wire(), "held_ms": reported}).held_ms == read


def test_age_of_report_is_added_to_idle_time() -> None:
    assert together([observe(QUIET, 5), observe(QUIET, 2)], "m").idle == timedelta(seconds=62)


def test_gateway_without_requests_does_not_set_last_request_time() -> None:
    new = replace(QUIET, arrivals=0, idle_ms=1000)
    found = together([observe(QUIET), observe(new)], "m")
    assert (found.idle, found.requested) == (timedelta(seconds=1), timedelta(seconds=60))
    assert together([observe(new)], "m").requested is None


def paused(began: float, ended: float, idle: float) -> ModelReports:
    """Return the report of a gateway with an ended pause, without requests for `idle` seconds."""
    report = replace(QUIET, idle_ms=round(1000 * idle))
    return {
        "m": AgedReport(report, timedelta(0), pause=Pause(*(timedelta(seconds=at) for at in (began, ended))))
    }


@pytest.mark.parametrize(
    ("gateways", "expected"),
    [
        pytest.param([paused(300, 10, 5)], (300, 10), id="one"),
        pytest.param([paused(300, 10, 5), paused(280, 9, 5)], (280, 10), id="both had one"),
        pytest.param([paused(300, 10, 5), observe(QUIET, 140)], (200, 10), id="the other's goes on"),
        pytest.param([paused(300, 10, 5), observe(QUIET)], None, id="the other was asked in between"),
        pytest.param([paused(300, 10, 5), paused(900, 290, 285)], (285, 10), id="the other's next one"),
        pytest.param([paused(300, 250, 245)], None, id="it was too short"),
        pytest.param([observe(QUIET)], None, id="it goes on"),
        pytest.param([paused(300, 10, 5), observe(replace(BUSY, held=0))], None, id="the other streams"),
        pytest.param([paused(300, 10, 5), None], None, id="the other is not heard"),
    ],
)
def test_pause_is_intersection_of_pauses_of_all_gateways(
    gateways: list[ModelReports | None], expected: tuple[float, float] | None
) -> None:
    found = together(gateways, "m").pause
    assert (None if found is None else (found.began.total_seconds(), found.ended.total_seconds())) == expected


def test_traffic_is_not_known_if_one_gateway_does_not_report() -> None:
    found = together([observe(BUSY), None], "m")
    assert not found.known
    assert (found.held, found.in_flight, found.acknowledged) == (2, 3, 3), "the others still count"


def test_traffic_is_unknown_if_no_gateway_reports() -> None:
    assert together([], "m") == together([None, None], "m") == UNKNOWN
    assert not UNKNOWN.known


def test_model_is_not_routed_if_no_server_is_up() -> None:
    assert not together([observe(BUSY)], "m").routed


def test_unrouted_time_is_shortest_of_all_gateways() -> None:
    lost = [{"m": AgedReport(BUSY, timedelta(0), unrouted=timedelta(seconds=since))} for since in (9, 4)]
    assert together(lost, "m").unrouted == timedelta(seconds=4)
    assert together([*lost, observe(QUIET)], "m").unrouted == timedelta(0)


def test_traffic_is_not_known_if_a_gateway_omits_the_model() -> None:
    found = together([observe(QUIET), {"other": AgedReport(BUSY, timedelta(0))}], "m")
    assert (found.known, found.held) == (False, 0)
    assert together([{"": AgedReport(BUSY, timedelta(0))}], "m") == UNKNOWN


def test_requests_of_unknown_models_count_for_each_model() -> None:
    """Requests with an unreadable model name, and those of a removed model, count for each model."""
    both = {"m": AgedReport(QUIET, timedelta(0)), "other": AgedReport(BUSY, timedelta(0))}
    assert together([both], "m", ("m", "other")).held == 0
    for name in ("", "gone"):
        found = together([{**both, name: AgedReport(BUSY, timedelta(0))}], "m", ("m", "other"))
        assert (found.held, found.in_flight, found.idle) == (2, 3, timedelta(seconds=0.5))
        assert (found.acknowledged, found.routed) == (4, True), "its own gate tells what was carried out"


def test_clusters_in_use_are_those_of_all_gateways() -> None:
    first, second = (observe(replace(QUIET, clusters=names)) for names in (("a",), ("a", "b")))
    assert clusters_in_use([first, second]) == frozenset({"a", "b"})
    both = {**first, "n": AgedReport(replace(QUIET, clusters=("c",)), timedelta(0))}
    assert clusters_in_use([first, both]) == frozenset({"a", "c"})


@pytest.mark.parametrize("other", [None, {}, observe(QUIET)])
def test_clusters_in_use_are_unknown_if_one_gateway_omits_clusters(other: ModelReports | None) -> None:
    assert clusters_in_use([observe(replace(QUIET, clusters=("a",))), other]) is None
    assert clusters_in_use([]) is None


def test_report_keeps_valid_clusters_and_ignores_invalid_clusters() -> None:
    for clusters in ((), ("a", "b"), None):
        report = replace(QUIET, clusters=clusters)
        assert Report.parse(report.wire()) == report
    for nonsense in ("a", {"a": 1}, ["a"] * 100):
        assert Report.parse(QUIET.wire() | {"clusters": nonsense}).clusters is None
    assert Report.parse(QUIET.wire() | {"clusters": ["a", 3, "x" * 300]}).clusters == ("a",)


def test_gate_name_is_split_into_service_and_model() -> None:
    assert named("chat/meta/llama") == ("chat", "meta/llama")
    assert named("chat") == ("chat", "")


def test_update_survives_round_trip_through_wire_form() -> None:
    update = Update(boot="a", full=True, services={"chat/m": QUIET, "code": BUSY})
    assert Update.parse(update.wire()) == update
    assert Update.parse(replace(update, short=True).wire()).short
    for enforced in (True, False, None):
        assert Update.parse(replace(update, enforced=enforced).wire()).enforced is enforced
    assert Update.parse({**update.wire(), "enforced": "no"}).enforced is None


def test_invalid_parts_of_update_are_parsed_as_empty() -> None:
    nothing = Report(epoch=0, gate="", arrivals=0, held=0, in_flight=0, idle_ms=0, servers_up=0)
    assert Update.parse({"services": {"chat": [], "code": {"held": "many"}}}) == Update(
        boot="", full=False, services={"chat": nothing, "code": nothing}
    )
    assert Update.parse(None).services == {}


def test_excessive_idle_time_is_capped() -> None:
    report = Report.parse({**BUSY.wire(), "idle_ms": 10**30})
    assert timedelta(milliseconds=report.idle_ms) > timedelta(days=3650)
