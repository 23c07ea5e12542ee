"""Desired HAProxy configuration of a service."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.api.ray.routing import PrefixRouting, SessionRouting
from daybreak.api.serveapplication.deployment import Deployment
from daybreak.gateway.desired.gates import (
    DEPLOYMENT_ONGOING,
    FALLBACK_REPLICAS,
    IMBALANCED_THRESHOLD,
    MAX_BODY_BYTES,
    Claims,
    DesiredService,
    Ports,
    desired_state,
)
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate
from tests.budget import examples
from tests.unit.gateway.manifests import entry, gate, head, manifest, read, small


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for JSON objects with fields of manifests."""
    fields = ["metadata", "name", "spec", "models", "hold", "status", "gate", "state", "port", "backends"]
    return st.dictionaries(st.sampled_from(fields), inner, max_size=4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | objects(inner),
    max_leaves=20,
)


def test_desired_state_has_settings_of_all_gates() -> None:
    hold = {"maxRequests": 5, "maxBodyBytes": "1Ki"}
    claim = read(manifest(gate(), hold=hold), head())
    assert (claim.port, claim.uid, claim.name) == (20003, "u1", "tiny")
    assert claim.models == ("small", "org/big")
    slots = [each.slot for each in (*claim.gates, claim.front)]
    assert [(slot.service, slot.model, slot.gate, slot.epoch) for slot in slots] == [
        ("tiny", "small", Gate.OPEN, 7),
        ("tiny", "org/big", Gate.OPEN, 9),
        ("tiny", "", Gate.OPEN, 9),
    ]
    assert {(slot.hold_ms, slot.max_held, slot.max_body_bytes, slot.port) for slot in slots} == {
        (90_000, 5, 1024, 20003)
    }
    assert claim.front.servers == (Server("10.0.0.1", 8000),)
    assert [slot.front for slot in slots] == [False, False, True]


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ([entry("tiny")], ("tiny",)),
        ([entry("a", adapters=["x", 7, "", "a"]), 7, entry(""), {}, entry("b")], ("a", "x", "b")),
        ([], ()),
        (None, ()),
        (["small"], ()),
    ],
)
def test_models_are_those_of_the_gate(models: Any, expected: tuple[str, ...]) -> None:
    assert read(manifest(gate() | {"models": models})).models == expected


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (
            {"userAgents": ["probe/1", "probe/1"], "keys": ["team", "keys/one"], "paths": ["/v1/embeddings"]},
            ("agent/probe/1", "key/team", "key/keys/one", "path/v1/embeddings"),
        ),
        ({"paths": [7, None, "/words"], "keys": "team"}, ("path/words",)),
        (None, ()),
    ],
)
@pytest.mark.parametrize("kind", ["LLMService", "ModelServer", "ServeApplication"])
def test_front_slot_has_health_checks_for_each_kind(kind: str, checks: Any, expected: Any) -> None:
    found = manifest(gate(entry("tiny")), sleep={"healthChecks": checks}) | {"kind": kind}
    claim = read(found, head())
    assert claim.front.slot.probes == expected
    assert claim.front.slot.front


def test_unset_limits_have_defaults() -> None:
    slot = small(manifest(gate())).slot
    assert (slot.max_held, slot.max_body_bytes) == (1000, 10 * 2**20)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Open", Gate.OPEN),
        ("Closed", Gate.CLOSED),
        ("Failed", Gate.FAILED),
        ("Unheard", Gate.CLOSED),
        ([], Gate.CLOSED),
    ],
)
def test_gate_follows_status_and_is_closed_if_state_is_unknown(state: Any, expected: Gate) -> None:
    assert small(manifest(gate(entry("small", state)))).slot.gate is expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), Gate.CLOSED),
        (("Open", "Open"), Gate.OPEN),
        (("Open", "Closed"), Gate.CLOSED),
        (("Failed", "Closed"), Gate.CLOSED),
        (("Failed", "Open"), Gate.OPEN),
        (("Failed", "Failed"), Gate.FAILED),
    ],
)
def test_front_is_closed_while_any_model_is_closed(states: tuple[str, ...], expected: Gate) -> None:
    models = [
        entry(f"m{number}", state, holdSeconds=10 + number, reason=f"no GPU {number}")
        for number, state in enumerate(states)
    ]
    front = read(manifest(gate() | {"models": models})).front.slot
    assert front.gate is expected
    if states:
        assert front.hold_ms == 11_000, "as long as any of them"
    if expected is Gate.FAILED:
        assert front.reason == "m0: no GPU 0; m1: no GPU 1"


@pytest.mark.parametrize("found", [None, {}, {"port": "20003"}, []])
def test_desired_state_is_none_without_valid_gate(found: Any) -> None:
    assert desired_state(manifest(found), (), Ports()) is None


@pytest.mark.parametrize("size", ["many", "", -1, [], {"a": 1}])
def test_invalid_body_size_falls_back_to_default(size: Any) -> None:
    assert small(manifest(gate(), hold={"maxBodyBytes": size})).slot.max_body_bytes == MAX_BODY_BYTES


def test_max_requests_of_zero_allows_no_held_requests() -> None:
    assert small(manifest(gate(), hold={"maxRequests": 0})).slot.max_held == 0


@given(objects(JSON), objects(JSON), st.lists(objects(JSON), max_size=2))
@settings(max_examples=examples(200))
def test_any_manifest_with_port_has_desired_state(
    found: dict[str, Any], gate: dict[str, Any], pods: list[dict[str, Any]]
) -> None:
    assert isinstance(desired_state(found, pods, Ports()), DesiredService | None)
    found["status"] = {"gate": gate | {"port": 20003}}
    assert isinstance(desired_state(found, pods, Ports()), DesiredService)


def claim(name: str, port: int, created: str = "1") -> DesiredService:
    found = manifest(gate(port=port))
    found["metadata"] |= {"name": name, "uid": name, "creationTimestamp": created}
    return read(found)


def holder(claims: Claims, port: int) -> str | None:
    found = claims.holder(port)
    return found.name if found else None


def test_older_service_holds_port_that_two_services_claim() -> None:
    claims = Claims()
    assert claims.put("young", claim("young", 20000, "2")) == {20000}
    assert holder(claims, 20000) == "young"
    claims.put("old", claim("old", 20000, "1"))
    assert holder(claims, 20000) == "old"
    assert claims.put("old", None) == {20000}
    assert holder(claims, 20000) == "young"


def test_service_with_new_port_releases_old_port() -> None:
    claims = Claims()
    claims.put("one", claim("one", 20000))
    assert claims.put("one", claim("one", 20001)) == {20000, 20001}
    assert (holder(claims, 20000), holder(claims, 20001)) == (None, "one")
    assert claims.put("one", None) == {20001}
    assert claims.put("one", None) == set()


def test_gateway_defaults_equal_api_defaults() -> None:
    assert SessionRouting().fallback_replicas == FALLBACK_REPLICAS
    assert PrefixRouting().imbalanced_threshold == IMBALANCED_THRESHOLD
    assert Deployment(name="D").max_ongoing_requests == DEPLOYMENT_ONGOING
