"""Routing table of a namespace: the service of each model."""

from dataclasses import replace

from daybreak.gateway.desired.gates import DesiredGate, DesiredService
from daybreak.gateway.hold.keys import NOBODY, ApiKey
from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router.router import Route, words
from daybreak.gateway.router.routes import routes

PORTS = range(20000, 20010)


def service(name: str, port: int, created: str, *models: str) -> DesiredService:
    front = Slot(service=name, gate=Gate.CLOSED, epoch=1, listed=models)
    return DesiredService(uid=name, created=created, port=port, front=DesiredGate(front, ()), gates=())


def test_each_model_leads_to_its_service() -> None:
    found, others = routes(
        [service("one", 20000, "1", "a", "org/b", "a"), service("two", 20001, "2", "c")], PORTS
    )
    assert found == {"a": Route(20000, "one"), "org/b": Route(20000, "one"), "c": Route(20001, "two")}
    assert others == {}


def test_older_of_two_services_with_same_model_gets_its_requests() -> None:
    both = [service("young", 20000, "2", "a", "b"), service("old", 20001, "1", "a")]
    for order in (both, both[::-1]):
        found, others = routes(order, PORTS)
        assert found == {"a": Route(20001, "old"), "b": Route(20000, "young")}
        assert others == {"a": ("young",)}


def test_service_without_usable_port_has_no_routes() -> None:
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


def test_routes_are_encoded_as_one_word_for_any_model_names() -> None:
    assert words({}) == "||"
    pages = {"a": Route(1, "one", origins=("https://b.example:8", "*")), "b": Route(1, "one", origins=("*",))}
    assert words(pages) == "a=1:0,b=1:0||%2A,https%3A%2F%2Fb.example%3A8"
    found = words({"org/a b,c=d": Route(20000, "one"), "ü": Route(20001, "two")})
    assert found == "org%2Fa%20b%2Cc%3Dd=20000:0,%C3%BC=20001:0||"
    keyed = {model: Route(20000, "one", ("AB", "cd")) for model in "ab"} | {"c": Route(20001, "two", ("ef",))}
    assert words(keyed) == "a=20000:0,b=20000:0,c=20001:1|0=ab+cd,1=ef|"


def test_a_route_has_the_keys_of_its_service() -> None:
    one = service("one", 20000, "1", "a")
    digests = ("0" * 64, "1" * 64)
    found, _ = routes(
        [
            replace(
                one,
                front=DesiredGate(
                    replace(one.front.slot, keys=[ApiKey(digest, digest) for digest in digests]), ()
                ),
            )
        ],
        PORTS,
    )
    assert found == {"a": Route(20000, "one", digests)}


def test_route_has_only_keys_that_allow_its_model() -> None:
    one = service("one", 20000, "1", "a", "b")
    keys = [ApiKey("x", "1" * 64, models=("a",)), ApiKey("y", "2" * 64, expires=100)]
    keyed = [replace(one, front=DesiredGate(replace(one.front.slot, keys=keys), ()))]
    assert {model: route.keys for model, route in routes(keyed, PORTS, 99)[0].items()} == {
        "a": ("1" * 64, "2" * 64),
        "b": ("2" * 64,),
    }
    late = routes(keyed, PORTS, 100)[0]
    assert (late["a"].keys, late["b"].keys) == (("1" * 64,), (NOBODY,)), "not open to all"
