"""Request counts of backends: added up over gateways that start and end, and written rarely."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.kinds.llmroute.decide.decision import decide
from daybreak.kinds.llmroute.observe.observed import Observed, observe_route
from daybreak.kinds.llmroute.status.report import again, report
from daybreak.protocol.tallies import GatewayTally, Histogram, RouteTally, Tally
from tests.unit.llmroute.routes import Manifest, backend, route, server, service, there

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SINCE = "2026-01-01T00:00:00Z"
BACKENDS = [backend(weight=9), backend("two", "b", weight=1)]


def read_report(gateway: str, *sent: int, gone: bool = False, since: str = SINCE) -> GatewayTally:
    """Return the report of a gateway that sent requests to both backends; one in ten received 500."""
    tallies = [Tally(n, n, n // 10, Histogram({10: n}), Histogram({20: n})) for n in sent]
    return GatewayTally(gateway, gone, RouteTally(since, dict(zip(("one/a", "two/b"), tallies, strict=True))))


def look(manifest: Manifest, message: Sequence[GatewayTally] = (), seconds: float = 0) -> float | None:
    """Reconcile, update the manifest's status, and return the seconds until the next reconcile."""
    now = NOW + timedelta(seconds=seconds)
    each = observe_route(manifest, tuple(message))
    services = there(service(), service("two", "b"), server())
    decision = decide(Observed((each,), services), now)["chat"]
    wait = again(each, decision, now)
    manifest["status"] = report(each, decision, now).model_dump(mode="json", by_alias=True, exclude_none=True)
    return wait


def got(manifest: Manifest) -> list[tuple[int, int, float]]:
    """Return the requests, errors and observed share of both backends in the status."""
    return [
        (each["requests"], each["errors"], each["observedShare"]) for each in manifest["status"]["backends"]
    ]


def test_counts_of_all_gateways_are_summed() -> None:
    manifest = route(backends=BACKENDS)
    look(manifest)
    assert manifest["status"]["counts"] == {
        "startTime": SINCE,
        "updateTime": SINCE,
        "terminatedGateways": [],
        "ended": [],
    }
    assert got(manifest) == [(0, 0, 0.0), (0, 0, 0.0)]
    look(manifest, [read_report("g1", 90, 10), read_report("g2", 45, 5)], 60)
    assert got(manifest) == [(135, 13, 0.9), (15, 1, 0.1)]
    first = manifest["status"]["backends"][0]
    assert (first["ttftP95"], first["latencyP99"]) == (0.0566, 0.32)


def test_status_is_written_rarely_and_not_without_new_requests() -> None:
    manifest = route(backends=BACKENDS)
    look(manifest)
    look(manifest, [read_report("g1", 9, 1)], 60)
    written = manifest["status"]
    assert look(manifest, [read_report("g1", 90, 10)], 70) == 20.0
    assert manifest["status"] == written
    look(manifest, [read_report("g1", 90, 10)], 90)
    assert got(manifest)[0][0] == 90
    written = manifest["status"]
    assert look(manifest, [read_report("g1", 90, 10)], 10_000) is None
    assert manifest["status"] == written


def test_weight_change_restarts_counts() -> None:
    manifest = route(backends=BACKENDS)
    look(manifest)
    look(manifest, [read_report("g1", 90, 10)], 60)
    manifest["spec"]["backends"][1]["weight"] = 2
    look(manifest, [read_report("g1", 90, 10)], 61)
    assert manifest["status"]["counts"]["startTime"] == "2026-01-01T00:01:01Z"
    assert got(manifest) == [(0, 0, 0.0), (0, 0, 0.0)]
    look(manifest, [read_report("g1", 91, 11), read_report("g2", 3, 1, since="2026-01-01T00:01:01Z")], 100)
    assert got(manifest)[0] == (3, 0, 0.75), "a gateway with the previous start time counts nothing"
    for weight in (3, 4):
        manifest["spec"]["backends"][1]["weight"] = weight
        look(manifest, (), 100)
    assert manifest["status"]["counts"]["startTime"] == "2026-01-01T00:01:41Z", "no two begin at one time"


def test_counts_of_terminated_gateway_are_kept_and_added_once() -> None:
    manifest = route(backends=BACKENDS)
    look(manifest)
    look(manifest, [read_report("g1", 90, 10), read_report("g2", 90, 10)], 60)
    gone = [read_report("g1", 99, 11, gone=True), read_report("g2", 90, 10)]
    look(manifest, gone, 100)
    assert got(manifest) == [(189, 18, 0.9), (21, 2, 0.1)]
    assert manifest["status"]["counts"]["terminatedGateways"] == ["g1"]
    written = manifest["status"]
    assert look(manifest, gone, 200) is None
    assert manifest["status"] == written
    # A restarted operator has no reports from the terminated gateway.
    assert look(manifest, [read_report("g2", 90, 10)], 300) is None
    look(manifest, [read_report("g2", 91, 10), read_report("g3", 9, 1, gone=True)], 400)
    assert got(manifest)[0][0] == 199
    ended: list[dict[str, Any]] = manifest["status"]["counts"]["ended"]
    assert [(each["sent"], each["firstByteBuckets"]) for each in ended] == [(108, "10:108"), (12, "10:12")]


def test_counts_of_unknown_backends_are_ignored() -> None:
    manifest = route(backends=BACKENDS)
    look(manifest)
    strange = GatewayTally(
        "g1", True, RouteTally(SINCE, {"other/x": Tally(sent=100), "one/a": Tally(sent=1)})
    )
    look(manifest, [strange], 60)
    assert got(manifest) == [(1, 0, 1.0), (0, 0, 0.0)]
    assert [each["service"] for each in manifest["status"]["counts"]["ended"]] == ["one"]


def test_counts_are_unchanged_until_all_gateways_report() -> None:
    manifest = route(backends=BACKENDS)
    look(manifest)
    look(manifest, [read_report("g1", 90, 10), read_report("g2", 90, 10)], 60)
    written = manifest["status"]
    assert look(manifest, (), 600) is None
    assert look(manifest, [read_report("g2", 95, 10)], 601) is None
    assert manifest["status"] == written
    look(manifest, [read_report("g1", 90, 10), read_report("g2", 95, 10)], 602)
    assert got(manifest)[0][0] == 185


def test_model_server_is_counted_by_its_gateway_name() -> None:
    manifest = route(backends=[backend(), backend("own", "m", kind="ModelServer")])
    look(manifest)
    ways = {"one/a": Tally(3, 3), "server.own/m": Tally(5, 5)}
    gone = GatewayTally("g", True, RouteTally(manifest["status"]["counts"]["startTime"], ways))
    look(manifest, [gone], 60)
    assert [(each["kind"], each["requests"]) for each in manifest["status"]["backends"]] == [
        ("LLMService", 3),
        ("ModelServer", 5),
    ]
    # The count is kept when the gateway no longer reports, and it does not restart.
    before = manifest["status"]
    assert [(each["kind"], each["service"]) for each in before["counts"]["ended"]] == [
        ("LLMService", "one"),
        ("ModelServer", "own"),
    ]
    look(manifest, [], 120)
    assert manifest["status"] == before


def test_counts_continue_if_status_has_no_backend_kinds() -> None:
    manifest = route(backends=BACKENDS)
    look(manifest)
    since = manifest["status"]["counts"]["startTime"]
    for row in manifest["status"]["backends"]:
        del row["kind"]
    look(manifest, [read_report("g", 9, 1)], 60)
    assert manifest["status"]["counts"]["startTime"] == since
    assert [each["requests"] for each in manifest["status"]["backends"]] == [9, 1]
