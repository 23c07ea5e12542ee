"""Ports of the gateway: one for each service, kept while the service exists."""

from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey
from daybreak.manifests.resources import SERVICES

FIRST, LAST = names.GATEWAY_PORTS
A, B = OwnerKey.of_label("ns", "a"), OwnerKey.of_label("ns", "b")


def front(
    service: str, port: Any, *, namespace: str = "ns", name: str = "", made: str = "2026-01-01T00:00:00Z"
) -> dict[str, Any]:
    """Return a front Service that leads to a port."""
    metadata = {
        "name": name or service,
        "namespace": namespace,
        "uid": f"{namespace}/{name or service}",
        "resourceVersion": "1",
        "creationTimestamp": made,
        "labels": {**names.owner_labels(service), names.MANAGED_BY_LABEL: names.MANAGED_BY},
    }
    spec = {"ports": [{"name": "http", "port": 80, "targetPort": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def known(*services: dict[str, Any]) -> PortAllocator:
    """Return the ports of an operator that has just started and knows these Services."""
    cache = Cache()
    for each in services:
        cache.put(SERVICES, each)
    return PortAllocator(cache)


def test_each_service_keeps_its_unique_port() -> None:
    ports = known()
    given = {name: ports.of(OwnerKey.of_label("ns", f"s{name}")) for name in range(300)}
    assert len(set(given.values())) == 300
    assert all(FIRST <= port <= LAST for port in given.values() if port is not None)
    assert given == {name: ports.of(OwnerKey.of_label("ns", f"s{name}")) for name in range(300)}


def test_new_operator_reads_ports_from_existing_front_services() -> None:
    # Not what it would choose itself, and each of them what the other one would.
    a, b = known().of(A), known().of(B)
    assert a != b
    ports = known(front("a", b), front("b", a))
    assert (ports.of(A), ports.of(B)) == (b, a)


def test_route_ports_come_from_route_range_only() -> None:
    first, last = names.GATEWAY_ROUTE_PORTS
    cache = Cache()
    for each in (front("a", FIRST), front("route.b", first + 5, name="b"), front("route.c", FIRST, name="c")):
        cache.put(SERVICES, each)
    ports = PortAllocator(cache, ports=names.GATEWAY_ROUTE_PORTS)
    assert ports.given("ns") == [OwnerKey.of_label("ns", "route.b")]
    assert ports.of(OwnerKey.of_label("ns", "route.b")) == first + 5
    others = {ports.of(OwnerKey.of_label("ns", f"route.{number}")) for number in range(last - first + 1)}
    assert others == {None, *range(first, last + 1)} - {first + 5}
    assert len(ports.given("ns")) == last - first + 1


def test_new_service_does_not_get_port_of_existing_service() -> None:
    own = known().of(A)
    ports = known(front("b", own))
    assert ports.of(A) not in (own, None)
    assert ports.of(B) == own


def test_services_in_different_namespaces_can_have_same_port() -> None:
    ports = known()
    assert ports.of(OwnerKey.of_label("one", "a")) == ports.of(OwnerKey.of_label("two", "a"))


def test_new_allocator_assigns_same_port_to_same_service() -> None:
    assert known().of(A) == known().of(A)


def test_released_port_is_reused_when_all_ports_are_taken() -> None:
    ports = known()
    keys = [OwnerKey.of_label("ns", f"s{number}") for number in range(LAST - FIRST + 1)]
    assert {ports.of(key) for key in keys} == set(range(FIRST, LAST + 1))
    assert ports.of(A) is None
    assert ports.of(OwnerKey.of_label("other", "a")) is not None
    free = ports.of(keys[7])
    ports.forget(keys[7])
    ports.forget(keys[7])
    assert ports.of(A) == free


def test_first_waiting_owner_is_called_back_when_port_is_released() -> None:
    """Without that call, the owner would get a port only at its next full reconcile, after ten minutes."""
    reported: list[OwnerKey] = []
    ports = PortAllocator(Cache(), reported.append)
    keys = [OwnerKey.of_label("ns", f"s{number}") for number in range(LAST - FIRST + 1)]
    for key in keys:
        ports.of(key)
    ports.forget(OwnerKey.of_label("ns", "never-there"))
    assert (ports.of(A), ports.of(B)) == (None, None)
    ports.forget(OwnerKey.of_label("other", "s7"))
    assert reported == []
    ports.forget(keys[7])
    assert reported == [A], "who waits longest"
    # If that owner is gone by then, the next one gets the port.
    ports.forget(A)
    assert reported == [A, B]
    assert ports.of(B) is not None
    ports.forget(keys[8])
    assert reported == [A, B], "nobody waits any more"


@pytest.mark.parametrize("turned", [False, True])
def test_older_of_two_services_with_same_port_keeps_port(turned: bool) -> None:
    later = "2026-01-01T00:00:01Z"
    for a, b, keeper in (
        (front("a", FIRST, made=later), front("b", FIRST), B),
        (front("a", FIRST), front("b", FIRST, made=later), A),
        (front("a", FIRST), front("b", FIRST), A),
    ):
        ports = known(*((b, a) if turned else (a, b)))
        given = {key: ports.of(key) for key in (A, B)}
        assert given[keeper] == FIRST
        assert FIRST not in {port for key, port in given.items() if key != keeper}


def test_services_that_are_not_front_services_reserve_no_port() -> None:
    free = known().of(A)
    others = [
        front("a", 8000),
        front("a", "http", name="by-name"),
        front("a", LAST + 1, name="outside"),
        front("a", FIRST, name="not-its-own-name"),
    ]
    assert known(*others).of(A) == free


def test_model_server_and_service_of_same_name_get_different_ports() -> None:
    """The front Service has the server's name, and its label holds the owner."""
    own, server = known().of(A), OwnerKey.of_label("ns", "server.a")
    ports = known(front("server.a", own, name="a"))
    assert ports.of(server) == own
    assert ports.of(A) not in (own, None)
