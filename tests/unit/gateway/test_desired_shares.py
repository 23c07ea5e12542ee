"""Shares of routes that the router gets, from statuses of routes and from services."""

from typing import Any

from daybreak.gateway.desired.gates import DesiredService, Ports, desired_state
from daybreak.gateway.hold.keys import NOBODY, ApiKey
from daybreak.gateway.router.desired_shares import desired_shares
from daybreak.gateway.router.external import External
from daybreak.gateway.router.shares import Share, Way, words
from tests.unit.llmroute.routes import server, service

ONE, TWO = "1" * 64, "2" * 64


def served(
    name: str, port: int, model: str, state: str = "Open", keys: tuple[ApiKey, ...] = ()
) -> DesiredService:
    found = desired_state(service(name, model, state=state, port=port), (), Ports(), keys)
    assert found is not None
    return found


def route(name: str = "chat", created: str = "1", **status: Any) -> dict[str, Any]:
    backends = [
        {"service": "one", "model": "a", "weight": 9},
        {"service": "two", "model": "b", "weight": 1},
    ]
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "status": {"names": [name], "backends": backends, **status},
    }


A, B = Way("one", "a", 20000, 9), Way("two", "b", 20001, 1)
BOTH = [served("one", 20000, "a"), served("two", 20001, "b")]


def test_a_route_leads_to_its_backends_by_weight() -> None:
    assert desired_shares([route(sessionAffinityHeader="X-Session-Id")], BOTH) == [
        Share("chat", ("chat",), (A, B), "X-Session-Id")
    ]


def test_missing_or_weightless_backend_gets_no_requests() -> None:
    assert desired_shares([route()], BOTH[:1]) == [Share("chat", ("chat",), (A,))]
    backends = [
        {"service": "one", "model": "a", "weight": 0},
        {"service": "one", "model": "other", "weight": 1},
        {"service": "two", "model": "b-tuned", "weight": 1},
    ]
    adapter = Way("two", "b-tuned", 20001, 1)
    assert desired_shares([route(backends=backends)], BOTH) == [Share("chat", ("chat",), (adapter,))]
    assert desired_shares([route()], []) == [Share("chat", ("chat",), ())]


def test_route_leads_only_to_backends_of_matching_kind() -> None:
    own = desired_state(server(), (), Ports(), (ApiKey("x", ONE),))
    other = desired_state(server("v2", "n", protocol="V2"), (), Ports())
    assert own is not None
    assert other is not None
    backends = [
        {"kind": "ModelServer", "service": "own", "model": "m", "weight": 2},
        {"kind": "ModelServer", "service": "v2", "model": "n", "weight": 1},
        {"service": "own", "model": "m", "weight": 1},
        # The label value of the ModelServer is not the name of an LLMService.
        {"kind": "LLMService", "service": "server.own", "model": "m", "weight": 1},
        {"kind": "ServeApplication", "service": "own", "model": "m", "weight": 1},
        {"kind": "Other", "service": "own", "model": "m", "weight": 1},
    ]
    (found,) = desired_shares([route(backends=backends, sessionAffinityKey=True)], [*BOTH, own, other])
    way = Way("server.own", "m", 20002, 2)
    assert (found.ways, found.keys, found.holders) == ((way,), (ONE,), ((ONE, "x"),))
    (found,) = desired_shares(
        [route(fallback=[{**backends[0], "holdTimeout": "2s"}], mirror=backends[0])], [own]
    )
    assert found.fallback == (Way("server.own", "m", 20002, 2000),)


def test_external_model_is_last_fallback() -> None:
    found = External("chat", "api.example.com", 443, "/v1", "203.0.113.7", "m", after_ms=20_000)
    inside = {"service": "two", "model": "b"}
    (share,) = desired_shares([route(fallback=[inside])], BOTH, externals={"chat": found, "other": found})
    assert share.fallback == (Way("two", "b", 20001, 0), Way("external.api.example.com", "m", 0, 20_000))
    (share,) = desired_shares([route(backends=[])], [], externals={"chat": found})
    assert (share.keys, len(share.fallback)) == ((), 1)


def test_sleeping_backend_keeps_or_loses_its_share_as_configured() -> None:
    asleep = [BOTH[0], served("two", 20001, "b", "Closed")]
    assert desired_shares([route(sleepingBackends="Wake")], asleep)[0].ways == (A, B)
    assert desired_shares([route(sleepingBackends="Skip")], asleep)[0].ways == (A,)
    both = [served("one", 20000, "a", "Closed"), served("two", 20001, "b", "Failed")]
    assert desired_shares([route(sleepingBackends="Skip")], both)[0].ways == (A, B), "a model must wake"


def test_route_with_own_address_has_port() -> None:
    assert [each.port for each in desired_shares([route(port=19000), route("talk", "2")], BOTH)] == [19000, 0]


def test_name_belongs_to_model_first_and_then_to_older_route() -> None:
    routes = [route("young", "2", names=["chat", "own", "a"]), route("old", "1", names=["chat"])]
    for order in (routes, routes[::-1]):
        assert [(each.route, each.names) for each in desired_shares(order, BOTH)] == [
            ("old", ("chat",)),
            ("young", ("own",)),
        ]


def test_route_with_missing_or_invalid_status_is_ignored() -> None:
    strange: list[dict[str, Any]] = [
        {"metadata": {"name": "new"}},
        {"metadata": {"name": "odd"}, "status": {"names": "chat", "backends": 3}},
        {"metadata": {"name": "odder"}, "status": {"names": [3, ""], "backends": [{"service": 3}]}},
    ]
    assert desired_shares(strange, BOTH) == []


def test_route_has_only_keys_that_allow_all_its_models() -> None:
    both = (ApiKey("x", ONE), ApiKey("y", TWO))
    keyed = [served("one", 20000, "a", keys=both), served("two", 20001, "b", keys=both[1:])]
    assert desired_shares([route()], keyed)[0].keys == (TWO,)
    half = [served("one", 20000, "a", keys=both), BOTH[1]]
    assert desired_shares([route()], half)[0].keys == (ONE, TWO)
    apart = [served("one", 20000, "a", keys=both[:1]), served("two", 20001, "b", keys=both[1:])]
    assert desired_shares([route()], apart)[0].keys == (NOBODY,), "not open to all"
    ended = [served("one", 20000, "a", keys=(ApiKey("x", ONE, expires=100),)), BOTH[1]]
    assert desired_shares([route()], ended, now=100)[0].keys == (NOBODY,)


def test_share_with_key_affinity_has_names_of_keys() -> None:
    one = (ApiKey("x", ONE), ApiKey("gone", NOBODY))
    two = (ApiKey("other name of x", ONE), ApiKey("y", TWO))
    keyed = [served("one", 20000, "a", keys=one), served("two", 20001, "b", keys=two)]
    (found,) = desired_shares([route(sessionAffinityKey=True)], keyed)
    assert found.holders == ((ONE, "x"), (TWO, "y"))
    assert desired_shares([route()], keyed)[0].holders == ()
    assert desired_shares([route(sessionAffinityKey=True)], BOTH)[0].holders == ()


def test_shares_are_encoded_as_one_word_for_any_names() -> None:
    assert words([]) == ""
    ways = (Way("s/1", "org/m", 20000, 2), A)
    last = (Way("two", "b", 20001, 500),)
    odd = Share("r:1", ("a+b,c", "ü"), ways, "X-Session-Id", ("AB", "cd"), "2026-01-01T00:00:00Z", last)
    assert words([odd, Share("none", ("n",), ())]) == (
        "r%3A1:X-Session-Id:ab+cd:a%2Bb%2Cc+%C3%BC:s%2F1/20000/2/org%2Fm+one/20000/9/a"
        ":2026-01-01T00%3A00%3A00Z:two/20001/500/b::::,none:::n:::::::"
    )
    held = Share("r", ("n",), (), holders=((ONE.replace("1", "A"), "s/k"), (TWO, "b+c")), port=19000)
    assert words([held]).endswith(f":{'a' * 64}/s%2Fk+{TWO}/b%2Bc:19000")


def test_fallbacks_keep_their_order_and_missing_fallback_is_ignored() -> None:
    fallback = [
        {"service": "two", "model": "b", "holdTimeout": "1m30s"},
        {"service": "gone", "model": "c"},
        {"service": "one", "model": "a"},
        {"service": "one", "model": "a", "holdTimeout": "soon"},
    ]
    once, last = Way("two", "b", 20001, 90_000), Way("one", "a", 20000, 0)
    (found,) = desired_shares([route(fallback=fallback)], BOTH)
    assert found.fallback == (once, last, last), "what cannot be read is no time"
    keyed = [served("two", 20001, "b", keys=(ApiKey("x", ONE),))]
    (found,) = desired_shares([route(backends=[], fallback=fallback)], keyed)
    assert (found.ways, found.keys) == ((), (ONE,)), "not named to all"


def test_mirror_skips_sleeping_backend_unless_wake_is_configured() -> None:
    copies = {"service": "two", "model": "b", "percent": 5, "sleepingBackend": "Skip"}
    assert desired_shares([route(mirror=copies)], BOTH)[0].mirror == Way("two", "b", 20001, 5)
    asleep = [BOTH[0], served("two", 20001, "b", "Closed")]
    assert desired_shares([route(mirror=copies)], asleep)[0].mirror is None
    assert desired_shares([route(mirror=copies | {"sleepingBackend": "Wake"})], asleep)[0].mirror is not None
    assert desired_shares([route(mirror=copies)], BOTH[:1])[0].mirror is None
    assert desired_shares([route()], BOTH)[0].mirror is None
