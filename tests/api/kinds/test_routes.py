"""LLMRoute on the real API server: what it refuses, and what the operator says of names and backends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.schema.resource import API_VERSION
from tests.api.admin import APPLY, Admin, Refused, events_with, eventually
from tests.api.objects.batches import NIGHT, read_report
from tests.api.objects.llmservice import model, tiny
from tests.api.operator_process import OperatorProcess
from tests.api.playing.words import write_whole
from tests.unit.llmroute.routes import backend, canary, route
from tests.unit.llmroute.test_spec import BROKEN

BY_THE_SERVER = sorted(BROKEN.keys() - {"an unknown field"})
"""kubectl refuses unknown fields; others may send them, and they are dropped."""


def written(name: str = "chat", **spec: Any) -> dict[str, Any]:
    """Return a route's manifest as a user writes it."""
    return {**route(name, **spec), "metadata": {"name": name}}


def status(admin: Admin, name: str = "chat") -> dict[str, Any]:
    """Return the status that the operator writes for a route."""
    found: dict[str, Any] = (admin.get("LLMRoute", name) or {}).get("status") or {}
    return found


def condition(admin: Admin, kind: str, reason: str, name: str = "chat") -> dict[str, Any]:
    """Return the condition once it has that reason."""

    def look() -> dict[str, Any] | None:
        found = {each["type"]: each for each in status(admin, name).get("conditions", ())}
        return found[kind] if found.get(kind, {}).get("reason") == reason else None

    return eventually(f"{kind}, {reason}", look)


@pytest.fixture
def service(admin: Admin, gated: OperatorProcess) -> Iterator[None]:
    """Yield an LLMService with the model `tiny`."""
    admin.create(tiny("one"))
    eventually("its gate", lambda: (admin.get("LLMService", "one").get("status") or {}).get("gate"))
    yield
    for name in ("chat", "young", "llm"):
        if admin.get("LLMRoute", name):
            admin.delete("LLMRoute", name)
    if admin.get("LLMService", "one"):
        admin.delete("LLMService", "one")


@pytest.mark.parametrize("case", BY_THE_SERVER)
def test_api_server_rejects_invalid_route(admin: Admin, case: str) -> None:
    manifest, _ = BROKEN[case]
    with pytest.raises(Refused) as refusal:
        admin.create({**manifest, "metadata": {"name": manifest["metadata"]["name"]}})
    assert refusal.value.status == 422


def test_route_status_reports_missing_backend_and_follows_spec_changes(admin: Admin, service: None) -> None:
    backends = [backend("one", "tiny", weight=3), backend("two", "b", weight=1)]
    admin.create(written(backends=backends, sessionAffinity={"header": "X-Session-Id"}))
    assert "there is no LLMService two" in condition(admin, "Ready", "BackendNotFound")["message"]
    condition(admin, "Stalled", "BackendNotFound")
    condition(admin, "Accepted", "Routed")
    found = status(admin)
    assert (found["names"], found["sessionAffinityHeader"], found["sleepingBackends"]) == (
        ["chat"],
        "X-Session-Id",
        "Wake",
    )
    assert [(each["weight"], each["share"]) for each in found["backends"]] == [(3, 1.0), (1, 0.0)]
    assert found["observedGeneration"] == admin.get("LLMRoute", "chat")["metadata"]["generation"]
    # One weight, as a program changes it.
    one_weight = {**written(), "spec": {"names": ["chat"], "backends": [backend("two", "b", weight=0)]}}
    by = {"fieldManager": "canary", "force": "true"}
    admin.request("PATCH", admin.path("LLMRoute", "chat"), one_weight, APPLY, query=by)
    condition(admin, "Ready", "Routed")
    assert [each["weight"] for each in status(admin)["backends"]] == [3, 0]
    # Written once, and then no more.
    version = admin.get("LLMRoute", "chat")["metadata"]["resourceVersion"]
    admin.merge("LLMService", "one", {"metadata": {"labels": {"look": "again"}}})
    admin.create(written("young", names=["chat"]))
    condition(admin, "Accepted", "NameConflict", "young")
    assert admin.get("LLMRoute", "chat")["metadata"]["resourceVersion"] == version
    admin.delete("LLMRoute", "chat")
    condition(admin, "Accepted", "Routed", "young")
    assert events_with(admin, "BackendNotFound", "Routed")


def test_route_status_lists_matches_mirror_and_fallbacks(admin: Admin, service: None) -> None:
    requested = {"apiKeys": ["nobody"], "backends": [backend("one", "tiny")]}
    fallback, copies = [backend("two", "b", holdTimeout="20s")], backend("two", "c", percent=10)
    external: dict[str, Any] = {
        "url": "https://api.example.com:8443/v1",
        "model": "big",
        "holdTimeout": "20s",
    }
    external["apiKeySecretRef"] = {"name": "account", "key": "key"}
    more: dict[str, Any] = {"matches": [requested], "mirror": copies, "externalFallback": external}
    admin.create(written(backends=[backend("one", "tiny")], fallback=fallback, **more))
    message = condition(admin, "Stalled", "BackendNotFound")["message"]
    assert "there is no LLMService two" in message
    assert "match 1 asks for the API key nobody" in message
    found = status(admin)
    kind = {"kind": "LLMService"}
    assert found["externalFallback"] == {**external, "requests": 0, "errors": 0, "observedShare": 0}
    assert found["fallback"] == [{**fallback[0], **kind}]
    assert found["matches"] == [{**requested, "backends": [backend("one", "tiny", weight=1, **kind)]}]
    assert found["mirror"] == {**copies, **kind, "sleepingBackend": "Skip"}
    models = [(each["model"], each["weight"]) for each in found["backends"]]
    assert models == [("tiny", 1), ("b", 0), ("c", 0)]
    admin.merge("LLMRoute", "chat", {"spec": {"fallback": None, "mirror": None}})
    condition(admin, "Ready", "KeyNotFound")
    admin.merge("LLMRoute", "chat", {"spec": {"matches": None}})
    condition(admin, "Ready", "Routed")


def test_route_status_follows_state_of_model_server(admin: Admin, service: None) -> None:
    """The model server has the same name and model as a service: one status distinguishes them."""
    server = {"engine": "vllm", "model": {"name": "m", "source": "file:///m"}, "accelerator": {"kind": "cpu"}}
    own = backend("own", "m", kind="ModelServer")
    admin.create(written(names=["chat", "m"], backends=[own], fallback=[backend("own", "m")]))
    message = condition(admin, "Ready", "BackendNotFound")["message"]
    assert "there is no ModelServer own; there is no LLMService own" in message
    admin.create(
        {
            "apiVersion": API_VERSION,
            "kind": "ModelServer",
            "metadata": {"name": "own", "annotations": {"daybreak.dev/fit-check": "off"}},
            "spec": server,
        }
    )
    admin.merge("LLMRoute", "chat", {"spec": {"fallback": None}})
    eventually("its name", lambda: status(admin)["names"] == ["chat"])
    assert "model m of ModelServer own" in condition(admin, "Accepted", "NameConflict")["message"]
    # It follows what the operator itself writes of the server.
    rows = eventually(
        "its gate", lambda: [row for row in status(admin)["backends"] if row["state"] == "Holding"]
    )
    assert [(row["kind"], row["service"], row["share"]) for row in rows] == [("ModelServer", "own", 1.0)]
    admin.merge("ModelServer", "own", {"spec": {"protocol": "Any"}})
    message = condition(admin, "Stalled", "BackendProtocol")["message"]
    assert "ModelServer own has protocol Any" in message
    assert status(admin)["names"] == ["chat", "m"]
    admin.delete("ModelServer", "own")
    condition(admin, "Stalled", "BackendNotFound")


def tells(folder: Path, admin: Admin, **gateways: dict[str, Any]) -> None:
    """Set the gateways' reports about the route `chat` from now on."""
    write_whole(folder / f"{admin.namespace}.route.chat", json.dumps(gateways))


def test_route_status_counts_requests_and_errors_of_each_backend(
    admin: Admin, service: None, traffic: Path
) -> None:
    admin.create(written(backends=[backend("one", "tiny", weight=3), backend("one", "tiny-2", weight=1)]))
    condition(admin, "Accepted", "Routed")
    since = status(admin)["counts"]["startTime"]

    def got() -> list[tuple[int, int]]:
        return [(each["requests"], each["errors"]) for each in status(admin)["backends"]]

    assert got() == [(0, 0), (0, 0)]
    first = {"one/tiny": [30, 30, 3, {"10": 27}, {"20": 27}], "one/tiny-2": [10, 10, 0, {}, {}]}
    tells(traffic, admin, a={"ways": first}, b={"ways": first})
    eventually("what it got", lambda: got() == [(60, 6), (20, 0)], 60)
    assert [each["observedShare"] for each in status(admin)["backends"]] == [0.75, 0.25]
    # Its time has not come: nothing is written, and what has gone is not lost.
    version = admin.get("LLMRoute", "chat")["metadata"]["resourceVersion"]
    more = first | {"one/tiny": [40, 40, 3, {}, {}]}
    tells(traffic, admin, a={"ways": more, "gone": True}, b={"ways": first})
    eventually("what it got later", lambda: got() != [(60, 6), (20, 0)], 60)
    written_at = status(admin)["counts"]
    assert got() == [(70, 6), (20, 0)]
    assert (written_at["terminatedGateways"], written_at["startTime"]) == (["a"], since)
    changed = int(admin.get("LLMRoute", "chat")["metadata"]["resourceVersion"])
    assert changed > int(version)
    tells(traffic, admin, b={"ways": first})
    admin.merge("LLMService", "one", {"metadata": {"labels": {"look": "again"}}})
    admin.merge("LLMRoute", "chat", {"spec": {"backends": [backend("one", "tiny")]}})
    eventually("counted anew", lambda: status(admin)["counts"]["startTime"] != since)
    assert status(admin)["counts"]["terminatedGateways"] == []


def test_canary_progresses_by_itself_and_is_rolled_back_on_errors(
    admin: Admin, service: None, traffic: Path
) -> None:
    steps = [{"weight": weight, "duration": "1s"} for weight in (5, 50, 80)]
    both = [backend("one", "tiny", weight=7), backend("one", "tiny-tuned")]
    spec = canary(service="one", model="tiny-tuned", steps=steps)
    admin.create(written(backends=both, canary=spec))
    condition(admin, "Canary", "CanaryProgressing")
    assert [each["weight"] for each in status(admin)["backends"]] == [95, 5]

    def step(number: int) -> None:
        eventually(f"step {number}", lambda: status(admin)["canary"]["step"] == number)

    # Without requests, the status shows why the canary waits.
    eventually("why it waits", lambda: "waits for requests" in status(admin)["canary"]["message"])
    times = [{"10": 1000}, {"20": 1000}]
    few = {"one/tiny": [1000, 1000, 0, *times], "one/tiny-tuned": [99, 99, 0, {}, {}]}
    tells(traffic, admin, a={"ways": few})
    enough = {**few, "one/tiny-tuned": [100, 100, 0, {}, {}]}
    since = status(admin)["counts"]["startTime"]
    tells(traffic, admin, a={"ways": enough, "since": since})
    step(2)
    assert [each["weight"] for each in status(admin)["backends"]] == [50, 50]
    assert status(admin)["counts"]["startTime"] > since
    since = status(admin)["counts"]["startTime"]
    worse = {**few, "one/tiny-tuned": [100, 100, 40, {}, {}]}
    tells(traffic, admin, a={"ways": worse, "since": since})
    message = condition(admin, "Canary", "CanaryRolledBack")["message"]
    assert "in step 2, at 50 %: errors: 40 of 100 (40 %), where the others have 0 of 1000 (0 %)" in message
    assert condition(admin, "Stalled", "CanaryRolledBack")["message"] == message
    assert [each["weight"] for each in status(admin)["backends"]] == [100, 0]
    assert admin.get("LLMRoute", "chat")["spec"]["backends"][0]["weight"] == 7, "the spec is the person's"
    events = events_with(admin, "CanaryProgressing", "CanaryRolledBack")
    assert {(each["type"], each["reason"]) for each in events if each["reason"].startswith("Canary")} == {
        ("Normal", "CanaryProgressing"),
        ("Warning", "CanaryRolledBack"),
    }
    version = admin.get("LLMRoute", "chat")["metadata"]["resourceVersion"]
    tells(traffic, admin, a={"ways": worse, "since": since})
    admin.create(written("young", names=["chat"]))
    condition(admin, "Accepted", "NameConflict", "young")
    assert admin.get("LLMRoute", "chat")["metadata"]["resourceVersion"] == version


def test_dedicated_address_gets_own_service_and_port(admin: Admin, service: None) -> None:
    somebodys = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "chat"}}
    admin.create({**somebodys, "spec": {"ports": [{"port": 80}]}})
    admin.create(written(backends=[backend("one", "tiny")], address="Dedicated"))
    message = condition(admin, "Stalled", "AddressConflict")["message"]
    assert "Service/chat exists and is not managed by Daybreak" in message
    condition(admin, "Accepted", "Routed")
    assert "port" not in status(admin)
    # Of the gateway's own name, too.
    admin.create(written("llm", names=["free"], backends=[backend("one", "tiny")], address="Dedicated"))
    condition(admin, "Stalled", "AddressConflict", "llm")
    admin.delete("LLMRoute", "llm")
    admin.delete("Service", "chat")
    condition(admin, "Ready", "Routed")
    own = admin.get("Service", "chat")
    (port,) = own["spec"]["ports"]
    assert own["spec"]["selector"] == names.gateway_selector()
    assert own["metadata"]["ownerReferences"][0]["kind"] == "LLMRoute"
    found = status(admin)
    assert (found["port"], found["url"]) == (
        port["targetPort"],
        f"http://chat.{admin.namespace}.svc/v1",
    )
    assert names.GATEWAY_ROUTE_PORTS[0] <= port["targetPort"] <= names.GATEWAY_ROUTE_PORTS[1]
    # Written once, and then no more; and each route has a dedicated port.
    versions = [admin.get(kind, "chat")["metadata"]["resourceVersion"] for kind in ("Service", "LLMRoute")]
    admin.create(written("young", backends=[backend("one", "tiny")], address="Dedicated"))
    condition(admin, "Ready", "Routed", "young")
    assert status(admin, "young")["port"] != found["port"]
    assert versions == [
        admin.get(kind, "chat")["metadata"]["resourceVersion"] for kind in ("Service", "LLMRoute")
    ]
    # It is repaired, and deleted when it is no longer requested.
    admin.merge("Service", "chat", {"spec": {"selector": {"app.kubernetes.io/name": "other"}}})
    eventually(
        "repaired", lambda: admin.get("Service", "chat")["spec"]["selector"] == own["spec"]["selector"]
    )
    admin.merge("LLMRoute", "chat", {"spec": {"address": "Shared"}})
    eventually("gone", lambda: admin.get("Service", "chat") is None)
    eventually("said", lambda: "port" not in status(admin))


def test_route_reports_taken_model_name_and_route_as_backend(admin: Admin, service: None) -> None:
    admin.create(written(names=["tiny", "free"], backends=[backend("one", "tiny")]))
    assert "model tiny of LLMService one" in condition(admin, "Accepted", "NameConflict")["message"]
    assert status(admin)["names"] == ["free"]
    admin.create(written("young", backends=[backend("chat", "free"), backend("one", "free")]))
    message = condition(admin, "Ready", "RouteToRoute", "young")["message"]
    assert "chat is an LLMRoute" in message
    assert "free is a name of an LLMRoute" in message
    # With the service the name is free.
    admin.delete("LLMService", "one")
    condition(admin, "Accepted", "Routed")
    assert status(admin)["names"] == ["tiny", "free"]


def test_batch_waits_for_missing_route_and_uses_shared_address(admin: Admin, service: None) -> None:
    admin.create(NIGHT.manifest(model=None, serviceRef={"kind": "LLMRoute", "name": "chat"}))
    assert "there is no LLMRoute chat" in NIGHT.stalled(admin, "ServiceNotFound")
    admin.create(written(names=["tiny"], backends=[backend("one", "tiny")]))
    eventually("its names", lambda: "has no name chat" in NIGHT.stalled(admin, "ServiceNotFound"))
    admin.merge("LLMRoute", "chat", {"spec": {"names": ["chat"]}})
    eventually("its objects", lambda: NIGHT.everything(admin))
    assert json.loads(read_report(admin))["service"]["url"] == f"http://llm.{admin.namespace}.svc/v1"
    # If a model gets a route's name, the name no longer leads to the route; the batch does not use the model.
    admin.create(tiny("two", models=[model(name="chat")]))
    eventually("no RayJob", lambda: admin.get("RayJob", "night") is None)
    assert "the name chat is that of the model chat of LLMService two" in NIGHT.stalled(
        admin, "ServiceNotFound"
    )
    admin.delete("LLMService", "two")
    eventually("its objects again", lambda: NIGHT.everything(admin))
    admin.delete("LLMBatch", "night")
    eventually("its end", lambda: NIGHT.gone(admin))
