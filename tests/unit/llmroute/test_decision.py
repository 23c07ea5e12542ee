"""Names and backends of routes, and the status that reports them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from daybreak.api.gates.served_models import protocol
from daybreak.api.llmroute.status import BackendState, LLMRouteStatus, RouteReason
from daybreak.kinds.llmroute.decide.decision import Decision, decide
from daybreak.kinds.llmroute.observe.observed import (
    Observed,
    OwnAddress,
    ServiceName,
    observe_route,
)
from daybreak.kinds.llmroute.status.report import events, report
from tests.unit.llmroute.routes import backend, canary, named, route, server, service, there

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN = backend("own", "m", kind="ModelServer")


def observed(
    routes: Sequence[Any],
    services: Sequence[Any] = (),
    keys: Mapping[str, Collection[str]] | None = None,
    **more: Any,
) -> Observed:
    observation = sorted((observe_route(each) for each in routes), key=lambda each: each.seniority)
    protocols = {named(each): reply for each in services if (reply := protocol(each))}
    found = {ServiceName("LLMService", name): each for name, each in (keys or {}).items()}
    return Observed(tuple(observation), there(*services), found, protocols, **more)


def one(manifest: Any, services: Sequence[Any] = (), **more: Any) -> tuple[Decision, LLMRouteStatus]:
    observation = observed([manifest], services, **more)
    decision = decide(observation, NOW)[manifest["metadata"]["name"]]
    return decision, report(observation.routes[0], decision, NOW)


def conditions(status: LLMRouteStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


def message(status: LLMRouteStatus, kind: str) -> str:
    return next(each.message for each in status.conditions if each.type == kind)


def test_route_with_existing_backends_is_ready() -> None:
    manifest = route(
        names=["chat", "chat-2"],
        backends=[backend(weight=3), backend("two", "b", weight=1), backend("two", "b-tuned", weight=0)],
        sessionAffinity={"header": "X-Session-Id"},
        sleepingBackends="Skip",
    )
    _, status = one(manifest, [service(), service("two", "b", state="Closed")])
    assert conditions(status) == {
        "Accepted": ("True", "Routed"),
        "Ready": ("True", "Routed"),
        "Stalled": ("False", "Routed"),
    }
    assert status.names == ["chat", "chat-2"]
    assert [(each.model, each.share, each.state) for each in status.backends] == [
        ("a", 0.75, "Open"),
        ("b", 0.25, "Holding"),
        ("b-tuned", 0.0, "Holding"),
    ]
    assert (status.session_affinity_header, status.sleeping_backends) == ("X-Session-Id", "Skip")


@pytest.mark.parametrize(
    ("address", "ready", "words"),
    [
        (OwnAddress(19000, there=True), ("True", "Routed"), "every backend"),
        (
            OwnAddress(None),
            ("False", "AddressConflict"),
            "has 256 dedicated addresses for routes, and all are used",
        ),
        (
            OwnAddress(19000, foreign="Service/chat"),
            ("False", "AddressConflict"),
            "Service/chat exists and is not managed",
        ),
        (OwnAddress(19000, leaving=True), ("False", "AddressConflict"), "an earlier route with this name"),
        (
            OwnAddress(19000, refusal="Service chat: no"),
            ("False", "AddressRejected"),
            "refused Service chat: no",
        ),
        (OwnAddress(19000, refusal="no", there=True), ("False", "AddressRejected"), "refused no"),
    ],
)
def test_dedicated_address_determines_ready_condition_and_url(
    address: OwnAddress, ready: tuple[str, str], words: str
) -> None:
    observation = observed([route(address="Dedicated")], [service()])
    observation = replace(observation, routes=(replace(observation.routes[0], address=address),))
    status = report(observation.routes[0], decide(observation, NOW)["chat"], NOW)
    assert conditions(status)["Ready"] == ready
    assert words in message(status, "Ready")
    stalled = ready[0] == "False" and not address.leaving
    assert conditions(status)["Stalled"][0] == str(stalled)
    assert status.names == ["chat"], "the common address serves it, regardless of its dedicated address"
    where = ("http://chat.ns.svc/v1", 19000) if address.there else (None, None)
    assert (status.url, status.port) == where


def test_share_of_missing_backend_goes_to_other_backends() -> None:
    manifest = route(backends=[backend(weight=1), backend("gone", "b", weight=9)])
    _, status = one(manifest, [service()])
    assert [each.share for each in status.backends] == [1.0, 0.0]
    assert conditions(status)["Ready"] == ("False", "BackendNotFound")
    assert conditions(status)["Stalled"] == ("True", "BackendNotFound")
    assert conditions(status)["Accepted"] == ("True", "Routed"), "the others answer"
    assert message(status, "Ready") == "there is no LLMService gone"


@pytest.mark.parametrize(
    ("desired", "there", "reason", "words"),
    [
        (backend("one", "b"), service(), RouteReason.BACKEND_NOT_FOUND, "has no model b; available: a"),
        (backend(), service(state="Failed"), RouteReason.BACKEND_FAILED, "of LLMService one cannot start"),
        (backend(), service(state=""), RouteReason.BACKEND_PENDING, "has no address for its model a yet"),
        (backend("chat", "a"), service(), RouteReason.ROUTE_TO_ROUTE, "chat is an LLMRoute"),
        (backend("one", "chat"), service(), RouteReason.ROUTE_TO_ROUTE, "chat is a name of an LLMRoute"),
        (OWN, server(state="Failed"), RouteReason.BACKEND_FAILED, "model m of ModelServer own cannot start"),
        (OWN, server(state=""), RouteReason.BACKEND_PENDING, "ModelServer own has no address for its model"),
        (OWN, server(model="n"), RouteReason.BACKEND_NOT_FOUND, "own has no model m; available: n"),
        (OWN, server(protocol="V2"), RouteReason.BACKEND_PROTOCOL, "ModelServer own has protocol V2, and a"),
        (OWN, server(protocol="Any"), RouteReason.BACKEND_PROTOCOL, "models of OpenAI's API only"),
        (OWN, service("own", "m"), RouteReason.BACKEND_NOT_FOUND, "the name exists as: LLMService"),
        (backend("own", "m"), server(), RouteReason.BACKEND_NOT_FOUND, "the name exists as: ModelServer"),
    ],
)  # fmt: skip
def test_unusable_backend_is_reported_with_reason(
    desired: Any, there: Any, reason: RouteReason, words: str
) -> None:
    _, status = one(route(backends=[desired]), [there])
    assert conditions(status)["Ready"] == ("False", reason)
    assert words in message(status, "Ready")
    waits = reason is RouteReason.BACKEND_PENDING
    assert conditions(status)["Stalled"][0] == ("False" if waits else "True")


def test_model_server_is_accepted_as_backend_canary_and_fallback() -> None:
    """A ModelServer can have the name of a service: both objects can exist, though one has no address."""
    canaried = canary(kind="ModelServer", service="own", model="m")
    _, status = one(route(backends=[backend(), OWN], canary=canaried), [service(), server(state="Closed")])
    assert conditions(status)["Ready"] == ("True", "Routed")
    assert [(each.kind, each.service, each.weight, each.state) for each in status.backends] == [
        ("LLMService", "one", 95, "Open"),
        ("ModelServer", "own", 5, "Holding"),
    ]
    assert "model m of ModelServer own: step 1 of 3" in message(status, "Canary")
    twin = backend("one", "a", kind="ModelServer")
    _, status = one(route(fallback=[twin]), [service(), server("one", "a", state="Failed")])
    assert [(each.kind, each.state) for each in status.backends] == [
        ("LLMService", "Open"),
        ("ModelServer", "Failed"),
    ]


def test_route_does_not_get_name_of_model_of_another_kind() -> None:
    application = {
        "kind": "ServeApplication",
        "metadata": {"name": "app"},
        "spec": {"protocol": "OpenAI", "models": ["pipeline"]},
        "status": {"gate": {"port": 20003, "protocol": "OpenAI", "models": [{"name": "app"}]}},
    }
    manifest = route(names=["m", "pipeline", "app", "free"])
    decision, status = one(manifest, [service(), server(), application])
    assert decision.names == ("app", "free")
    assert "the name m is that of the model m of ModelServer own" in message(status, "Accepted")
    assert "the name pipeline is that of the model pipeline of ServeApplication app" in message(
        status, "Accepted"
    )
    decision, _ = one(manifest, [service(), server(protocol="V2")])
    assert decision.names == ("m", "pipeline", "app", "free"), "its requests name no model"


def test_route_is_ready_if_missing_backend_has_weight_zero() -> None:
    """At the beginning of a canary, or after its end, the backend may not exist."""
    _, status = one(route(backends=[backend(), backend("next", "b", weight=0)]), [service()])
    assert conditions(status)["Ready"] == ("True", "Routed")
    assert status.backends[1].state is BackendState.MISSING


def test_route_name_that_is_a_model_name_is_a_name_conflict() -> None:
    manifest = route(names=["a", "a-tuned", "free"])
    decision, status = one(manifest, [service()])
    assert decision.names == ("free",)
    assert conditions(status)["Accepted"] == ("False", "NameConflict")
    assert conditions(status)["Ready"] == ("False", "NameConflict")
    assert "the name a is that of the model a of LLMService one" in message(status, "Accepted")


def test_older_of_two_routes_with_same_name_gets_name() -> None:
    young = route("young", "2026-01-02T00:00:00Z", names=["chat", "own"])
    old = route("old", "2026-01-01T00:00:00Z", names=["chat"])
    for both in ([young, old], [old, young]):
        found = decide(observed(both, [service()]), NOW)
        assert (found["old"].names, found["young"].names) == (("chat",), ("own",))
        assert not found["old"].unaccepted
        assert [each.message for each in found["young"].unaccepted] == [
            "the name chat is that of the older LLMRoute old, which gets its requests"
        ]


def test_invalid_route_gets_no_name() -> None:
    broken = route("old", "2026-01-01T00:00:00Z", names=["chat"], backends=[backend(weight=0)])
    young = route("young", "2026-01-02T00:00:00Z", names=["chat"])
    found = decide(observed([broken, young], [service()]), NOW)
    assert found["young"].names == ("chat",)
    assert [each.reason for each in found["old"].unaccepted] == ["InvalidSpec"]
    _, status = one(broken)
    assert conditions(status)["Accepted"] == ("False", "InvalidSpec")
    assert (status.names, status.backends) == ([], [])


def test_route_is_not_accepted_without_gateways() -> None:
    _, status = one(route(), [service()], gateway=False)
    assert conditions(status)["Accepted"] == ("False", "GatewayDisabled")
    assert status.names == []


def test_unchanged_conditions_keep_transition_time() -> None:
    manifest = route()
    observation = observed([manifest], [service()])
    first = report(observation.routes[0], decide(observation, NOW)["chat"], NOW)
    manifest["status"] = first.model_dump(mode="json", by_alias=True, exclude_none=True)
    observation = observed([manifest], [service(state="Closed")])
    later = report(observation.routes[0], decide(observation, NOW)["chat"], NOW + timedelta(hours=1))
    assert later.conditions == first.conditions
    assert later.backends[0].state is BackendState.HOLDING


def test_changed_readiness_emits_one_event() -> None:
    missing, found = one(route())[1], one(route(), [service()])[1]
    before = missing.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert [(each.warning, each.reason) for each in events({}, missing)] == [(True, "BackendNotFound")]
    assert events(before, missing) == []
    assert [(each.warning, each.reason) for each in events(before, found)] == [(False, "Routed")]
