"""Fallback models: the status lists them, and their number of requests."""

from datetime import UTC, datetime, timedelta

from daybreak.api.llmroute.status import BackendState
from daybreak.kinds.llmroute.decide.decision import decide
from daybreak.kinds.llmroute.observe.observed import Observed, observe_route
from daybreak.kinds.llmroute.status.report import report
from daybreak.protocol.tallies import GatewayTally, RouteTally, Tally
from tests.unit.llmroute.routes import Manifest, backend, canary, route, service, there
from tests.unit.llmroute.test_decision import conditions, message, one

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FALLBACK = [backend("two", "b", holdTimeout="20s"), backend()]


def test_status_lists_fallback_models() -> None:
    _, status = one(route(fallback=FALLBACK), [service(), service("two", "b", state="Closed")])
    assert [(each.service, each.model, each.hold_timeout) for each in status.fallback] == [
        ("two", "b", "20s"),
        ("one", "a", None),
    ]
    rows = [(each.model, each.weight, each.share, each.state) for each in status.backends]
    assert rows == [("a", 1, 1.0, BackendState.OPEN), ("b", 0, 0.0, BackendState.HOLDING)]
    assert conditions(status)["Ready"] == ("True", "Routed")


def test_missing_or_invalid_fallback_is_reported() -> None:
    _, status = one(route(fallback=FALLBACK), [service()])
    assert conditions(status)["Ready"] == ("False", "BackendNotFound")
    assert message(status, "Ready") == "there is no LLMService two"
    _, status = one(route(fallback=[backend("one", "chat")]), [service()])
    assert conditions(status)["Ready"] == ("False", "RouteToRoute")
    assert conditions(status)["Accepted"] == ("True", "Routed"), "the backend answers"


def look(manifest: Manifest, seconds: float, *, gone: bool = False, **tallies: Tally) -> None:
    """Reconcile with the tallies of `a` and `b` from one gateway."""
    now = NOW + timedelta(seconds=seconds)
    names = {"a": "one/a", "b": "two/b", "c": "next/c", "outside": "external.api.example.com/big"}
    since = manifest.get("status", {}).get("counts", {}).get("startTime", "")
    tally = RouteTally(since, {names[key]: each for key, each in tallies.items()})
    each = observe_route(manifest, (GatewayTally("g", gone, tally),))
    services = there(service(), service("two", "b"), service("next", "c"))
    decision = decide(Observed((each,), services), now)["chat"]
    manifest["status"] = report(each, decision, now).model_dump(mode="json", by_alias=True, exclude_none=True)


def test_forwarded_request_is_counted_for_answering_backend() -> None:
    manifest = route(fallback=FALLBACK)
    look(manifest, 0)
    look(manifest, 60, a=Tally(sent=100, answered=70, errors=7, passed_on=30), b=Tally(sent=30, answered=30))
    rows = [
        (each["requests"], each["observedShare"], each["fallbackRequests"])
        for each in manifest["status"]["backends"]
    ]
    assert rows == [(70, 0.7, 30), (30, 0.3, 0)]
    # The gateway sends requests first and forwards some later: fewer are kept, and the status shows that.
    look(manifest, 120, a=Tally(sent=100, answered=60, passed_on=40), b=Tally(sent=40, answered=40))
    assert [each["requests"] for each in manifest["status"]["backends"]] == [60, 40]


def test_a_canary_is_not_compared_with_a_fallback() -> None:
    """The fallback's errors belong to requests that the other backends did not serve."""
    both = [backend(), backend("next", "c")]
    limits = {"errorRate": 0.01, "minRequests": 10}
    manifest = route(backends=both, fallback=[backend("two", "b")], canary=canary(analysis=limits))
    look(manifest, 0)
    bad = Tally(sent=1000, answered=1000, errors=1000)
    look(manifest, 60, a=Tally(950, 950), b=bad, c=Tally(100, 100, 60))
    assert manifest["status"]["canary"]["phase"] == "RolledBack"
    assert "the others have 0 of 950" in manifest["status"]["canary"]["message"]


def test_mirror_is_listed_with_weight_zero() -> None:
    copies = backend("two", "b", percent=10)
    _, status = one(route(mirror=copies), [service(), service("two", "b", state="Closed")])
    assert status.mirror is not None
    assert (status.mirror.percent, status.mirror.sleeping_backend) == (10, "Skip")
    assert [(each.model, each.weight) for each in status.backends] == [("a", 1), ("b", 0)]
    _, status = one(route(mirror=copies), [service()])
    assert conditions(status)["Ready"] == ("False", "BackendNotFound")


def test_external_fallback_requests_are_counted() -> None:
    external = {
        "url": "https://api.example.com/v1",
        "model": "big",
        "apiKeySecretRef": {"name": "account", "key": "key"},
        "holdTimeout": "20s",
    }
    manifest = route(externalFallback=external)
    look(manifest, 0)
    found = manifest["status"]["externalFallback"]
    assert found == {**external, "requests": 0, "errors": 0, "observedShare": 0.0}
    assert conditions_of(manifest)["Ready"] == "True"
    mine = Tally(sent=10, answered=10, errors=1)
    look(manifest, 60, a=Tally(sent=40, answered=30, passed_on=10), outside=mine)
    found = manifest["status"]["externalFallback"]
    assert (found["requests"], found["errors"], found["observedShare"]) == (10, 1, 0.25)
    assert [each["observedShare"] for each in manifest["status"]["backends"]] == [0.75]
    # The status of external models is written as rarely as that of the others, and once.
    before = manifest["status"]
    look(manifest, 70, a=Tally(sent=40, answered=30, passed_on=10), outside=mine)
    assert manifest["status"] == before
    # The counts of a terminated gateway are kept.
    look(manifest, 120, gone=True, a=Tally(sent=40, answered=30, passed_on=10), outside=mine)
    look(manifest, 180)
    assert manifest["status"]["externalFallback"] == found


def conditions_of(manifest: Manifest) -> dict[str, str]:
    """Return the conditions of a status."""
    return {each["type"]: each["status"] for each in manifest["status"]["conditions"]}
