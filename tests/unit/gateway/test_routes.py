"""Which service each model of a namespace leads to."""

from dataclasses import replace

from daybreak.gateway.agent.wanted import Wanted, WantedGate
from daybreak.gateway.hold.keys import ApiKey
from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router.router import Route, words
from daybreak.gateway.router.routes import routes

PORTS = range(20000, 20010)


def service(name: str, port: int, created: str, *models: str) -> Wanted:
    front = Slot(service=name, gate=Gate.CLOSED, epoch=1, listed=models)
    return Wanted(uid=name, created=created, port=port, front=WantedGate(front, ()), gates=())


def test_each_model_leads_to_its_service() -> None:
    found, others = routes(
        [service("one", 20000, "1", "a", "org/b", "a"), service("two", 20001, "2", "c")], PORTS
    )
    assert found == {"a": Route(20000, "one"), "org/b": Route(20000, "one"), "c": Route(20001, "two")}
    assert others == {}


def test_the_older_service_of_two_with_the_same_model_gets_the_requests() -> None:
    both = [service("young", 20000, "2", "a", "b"), service("old", 20001, "1", "a")]
    for order in (both, both[::-1]):
        found, others = routes(order, PORTS)
        assert found == {"a": Route(20001, "old"), "b": Route(20000, "young")}
        assert others == {"a": ("young",)}


def test_a_service_that_is_not_served_has_no_models() -> None:
    found, others = routes(
        [
            service("outside", 19999, "1", "a"),
            service("late", 20000, "3", "b"),
            service("early", 20000, "2", "c"),
        ],
        PORTS,
    )
    assert found == {"c": Route(20000, "early")}
    assert others == {}


def test_routes_are_two_words_whatever_the_names() -> None:
    assert words({}) == "- -"
    found = words({"org/a b,c=d": Route(20000, "one"), "ü": Route(20001, "two")})
    assert found == "org%2Fa%20b%2Cc%3Dd=20000,%C3%BC=20001 -"
    keyed = {model: Route(20000, "one", ("AB", "cd")) for model in "ab"} | {"c": Route(20001, "two", ("ef",))}
    assert words(keyed).split()[1] == "20000=ab+cd,20001=ef"


def test_a_route_has_the_keys_of_its_service() -> None:
    one = service("one", 20000, "1", "a")
    digests = ("0" * 64, "1" * 64)
    found, _ = routes(
        [
            replace(
                one,
                front=WantedGate(
                    replace(one.front.slot, keys=[ApiKey(digest, digest) for digest in digests]), ()
                ),
            )
        ],
        PORTS,
    )
    assert found == {"a": Route(20000, "one", digests)}
