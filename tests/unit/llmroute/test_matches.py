"""Requests that match other backends: the status that lists them, and the gateways' shares."""

from typing import Any

from daybreak.gateway.hold.keys import NOBODY, ApiKey
from daybreak.gateway.router.desired_shares import desired_shares
from daybreak.gateway.router.shares import Compared, Match, Way, words
from daybreak.kinds.llmroute.observe.observed import keys
from tests.unit.gateway.test_desired_shares import ONE, served
from tests.unit.gateway.test_desired_shares import route as written
from tests.unit.llmroute.routes import backend, route, service
from tests.unit.llmroute.test_decision import conditions, message, one

BETA: dict[str, Any] = {"headers": [{"name": "X-Team", "prefix": "beta"}], "backends": [backend("two", "b")]}


def test_status_lists_matches_with_their_backends() -> None:
    _, status = one(route(matches=[BETA]), [service(), service("two", "b")])
    (found,) = status.model_dump(mode="json", by_alias=True, exclude_none=True)["matches"]
    assert found == {**BETA, "backends": [backend("two", "b", kind="LLMService", weight=1)]}
    assert [(each.model, each.weight, each.share) for each in status.backends] == [
        ("a", 1, 1.0),
        ("b", 0, 0.0),
    ]
    assert conditions(status)["Ready"] == ("True", "Routed")


def test_unusable_backend_of_match_is_reported() -> None:
    _, status = one(route(matches=[BETA]), [service()])
    assert conditions(status)["Ready"] == ("False", "BackendNotFound")
    cycle = {**BETA, "backends": [backend("chat", "a")]}
    _, status = one(route(matches=[cycle]), [service()])
    assert conditions(status)["Ready"] == ("False", "RouteToRoute")
    unused = {**BETA, "backends": [backend(), backend("gone", "b", weight=0)]}
    _, status = one(route(matches=[unused]), [service()])
    assert conditions(status)["Ready"] == ("True", "Routed")


def test_unknown_api_key_of_match_is_reported() -> None:
    secret = {"secretRef": {"name": "s", "key": "k"}}
    access = {"apiKeys": [{"name": "team", **secret}, secret]}
    two = service("two", "b")
    two["spec"]["access"] = access
    there = {"one": keys(service()), "two": keys(two)}
    assert there == {"one": frozenset(), "two": frozenset({"team", "s/k"})}
    requested = {"apiKeys": ["team", "s/k"], "backends": [backend("two", "b")]}
    _, status = one(route(matches=[requested]), [service(), two], keys=there)
    assert conditions(status)["Ready"] == ("True", "Routed")
    requested = {"apiKeys": ["teem"], "backends": [backend("two", "b")]}
    _, status = one(route(matches=[requested]), [service(), two], keys=there)
    assert conditions(status)["Stalled"] == ("True", "KeyNotFound")
    assert "match 1 asks for the API key teem" in message(status, "Ready")


def test_api_key_affinity_without_any_keys_is_reported() -> None:
    services, requested = [service(), service("two", "b")], route(sessionAffinity={"apiKey": True})
    _, status = one(requested, services, keys={"one": frozenset(), "two": frozenset({"x"})})
    assert status.session_affinity_key
    assert status.session_affinity_header is None
    assert conditions(status)["Stalled"] == ("True", "KeyNotFound")
    assert "no service that the route leads to has API keys (one)" in message(status, "Ready")
    _, status = one(requested, services, keys={"one": frozenset({"x"}), "two": frozenset()})
    assert conditions(status)["Ready"] == ("True", "Routed")
    _, status = one(route(sessionAffinity={"header": "x"}), services, keys={"one": frozenset()})
    assert conditions(status)["Ready"] == ("True", "Routed")
    assert status.session_affinity_key is None


def test_matches_are_converted_to_key_digests_and_lua_patterns() -> None:
    both = [served("one", 20000, "a"), served("two", 20001, "b", keys=(ApiKey("team", ONE),))]
    report = {
        "headers": [
            {"name": "X-A", "exact": "b"},
            {"name": "c", "prefix": "d"},
            {"name": "e", "regex": "f-[0-9]"},
        ],
        "apiKeys": ["team"],
        "paths": ["/v1/embeddings"],
        "users": ["alice"],
        "backends": [
            {"service": "two", "model": "b", "weight": 3},
            {"service": "gone", "model": "b", "weight": 1},
        ],
    }
    unknown = {"apiKeys": ["other"], "backends": [{"service": "two", "model": "b", "weight": 1}]}
    broken = {"headers": [{"name": "a", "regex": "(a+)+"}], "backends": []}
    (found,) = desired_shares([written(matches=[report, unknown, broken])], both)
    headers = (
        ("x-a", Compared.EXACT, "b"),
        ("c", Compared.PREFIX, "d"),
        ("e", Compared.PATTERN, "^f%-[0-9]$"),
    )
    way = Way("two", "b", 20001, 3)
    first, second, third = found.matches
    assert first == Match((way,), headers, (ONE,), ("/v1/embeddings",), ("alice",))
    assert second.keys == (NOBODY,), "not everybody"
    assert third.headers[0][2] == "$^", "nobody"
    assert "," not in words([found])
    assert words([found]).count(":") == 10


def test_sleeping_backend_of_match_is_skipped() -> None:
    both = [served("one", 20000, "a", "Closed"), served("two", 20001, "b")]
    report = {
        "paths": ["/a"],
        "backends": [
            {"service": "one", "model": "a", "weight": 9},
            {"service": "two", "model": "b", "weight": 1},
        ],
    }
    (found,) = desired_shares([written(matches=[report], sleepingBackends="Skip")], both)
    assert found.matches[0].ways == (Way("two", "b", 20001, 1),)
