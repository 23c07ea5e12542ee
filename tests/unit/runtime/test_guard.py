"""A replica checks bodies like the gateway: the same list, the same words, and the same pace."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings

from daybreak.gateway.fields import fields as of_the_gateway
from daybreak.gateway.haproxy.paths import PATHS, REPLICA_PATHS
from daybreak.gateway.hold.config import GatewayConfig
from daybreak_runtime.http import fields, guard, paths
from daybreak_runtime.http.admission import Admission
from daybreak_runtime.http.front import HEALTH, EngineFront
from daybreak_runtime.http.guard import Guard
from tests.budget import examples
from tests.gateway.guard.test_guard import conversations, documents, expected
from tests.unit.runtime.asgi_calls import Client, Engine, settle

CHAT = "/v1/chat/completions"
INSIDE = "chat_template_kwargs.chat_template"


def verdict(body: bytes, path: str = CHAT) -> str | None:
    """Return the rejected field, `-` for the body itself, or None if the body passes."""
    found = fields.refused(path, body)
    return None if found is None else found.param or "-"


def test_gateway_and_replica_share_same_field_rules() -> None:
    assert of_the_gateway.shared() == fields._TEXT
    assert of_the_gateway.guard_path() == fields.PATH
    for path in (*PATHS, *REPLICA_PATHS):
        assert paths.asks_the_engine(path)
        assert fields.looks_at(path) == (path not in of_the_gateway.FORMS)
        assert fields._BY_PATH[path] == of_the_gateway.rules(path)


def test_gateway_and_replica_allow_same_time_for_body() -> None:
    assert (GatewayConfig.body_grace, GatewayConfig.body_pace) == (guard._GRACE_SECONDS, guard._PACE)


@settings(max_examples=examples(300), deadline=None)
@given(text=documents() | conversations())
def test_verdict_matches_gateway_reference_for_any_json(text: str) -> None:
    body = text.encode()
    if isinstance(json.loads(body), dict):
        assert (verdict(body) is not None) == expected(body)
    else:
        assert verdict(body) == "-"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ('{"messages": [], "chat_template": "{{ x }}"}', "chat_template"),
        ('{"chat\\u005ftemplate": 1}', "chat_template"),
        ('{"\\u0063\\u0068\\u0061\\u0074_template": 1}', "chat_template"),
        ('{"chat_template": null}', None),
        ('{"chat_template": null, "chat_template": "x"}', "chat_template"),
        ('{"chat_template": "x", "chat_template": null}', "chat_template"),
        ('{"chat_template_kwargs": {"a": {}, "chat_template": "x"}}', INSIDE),
        ('{"chat_template_kwargs": {"chat_template": "x", "chat_template": null}}', INSIDE),
        ('{"chat_template_kwargs": {"chat_template": "x"}, "chat_template_kwargs": {}}', INSIDE),
        ('{"chat_template_kwargs": {"enable_thinking": false}, "n": 16}', None),
        ('{"chat_template_kwargs": {"inner": {"chat_template": "x"}}}', None),
        ('{"chat_template_kwargs": {"n": 100}}', None),
        ('{"messages": [{"chat_template": "x", "n": 100}]}', None),
        ('{"messages": "\\"chat_template\\": 1, \\\\"}', None),
        ('{"\\\\u006e": 100}', None),
        ('{"user": "x", "unheard_of": 1}', None),
        ('{"cache_salt": "tenant-7"}', None),
        ('{"cache_salt": "a\\u002fb"}', "cache_salt"),
        ('{"cache_salt": "' + "s" * of_the_gateway.MAX_SALT + '"}', None),
        ('{"cache_salt": "' + "s" * (of_the_gateway.MAX_SALT + 1) + '"}', "cache_salt"),
        ('{"priority": -5}', "priority"),
        ('{"metadata": {"priority": 1}, "messages": [{"priority": 1}]}', None),
        ('{"mm_processor_kwargs": {}}', "mm_processor_kwargs"),
        ('{"media_io_kwargs": []}', "media_io_kwargs"),
        ('{"n": 17}', "n"),
        ('{"n": "17"}', "n"),
        ('{"n": Infinity}', "n"),
        ('{"n": 16.5}', "n"),
        ('{"n": 17, "n": 1}', "n"),
        ("\ufeff" + '{"n": 17}', "n"),
        ('{"' + "k" * 3000 + '": null, "n": 17}', "n"),
        ('{"stop": 1, ' + '"stop": [], ' * 2000 + '"stop": 1}', "-"),
        ('{"chat_template_kwargs": {' + '"stop": [], ' * 2000 + '"stop": 1}}', "-"),
        ('{"messages": ' + "[" * 100_000, "-"),
        ('{"messages": []', "-"),
        ('{"messages": []} x', "-"),
        ("[]", "-"),
        ("", "-"),
    ],
)  # fmt: skip
def test_invalid_bodies_are_rejected_and_valid_bodies_pass(body: str, param: str | None) -> None:
    assert verdict(body.encode()) == param


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_utf16_and_utf32_bodies_are_rejected(encoding: str) -> None:
    assert verdict('{"model": 1}'.encode(encoding)) == "-"


@pytest.mark.parametrize("path", [path for path in (*PATHS, *REPLICA_PATHS) if fields.looks_at(path)])
@pytest.mark.parametrize("name", list(of_the_gateway.REFUSED))
def test_forbidden_field_is_rejected_unless_null(path: str, name: str) -> None:
    assert verdict(json.dumps({"model": "m", name: 1}).encode(), path) == name
    assert verdict(json.dumps({"model": "m", name: None}).encode(), path) is None


@pytest.mark.parametrize(
    ("path", "field", "items", "passes"),
    [
        ("/v1/embeddings", "input", ["a"] * 2048, True),
        ("/v1/embeddings", "input", ["a"] * 2049, False),
        ("/v1/embeddings", "input", [[1]] * 2049, False),
        ("/v1/embeddings", "input", [7] * 2049, True),
        ("/v1/completions", "prompt", ["a"] * 2049, False),
        ("/v1/completions", "stop", ["a"] * 2049, True),
        ("/v1/score", "text_2", ["a"] * 2049, False),
        ("/rerank", "documents", [{}] * 2049, False),
        ("/v1/chat/completions", "messages", [{}] * 2049, True),
    ],
)
def test_list_above_allowed_length_is_rejected(path: str, field: str, items: list[Any], passes: bool) -> None:
    assert (verdict(json.dumps({field: items}).encode(), path) is None) == passes


class Clock:
    """Clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


async def answered(client: Client, engine: Engine | None = None) -> Client:
    """Return the client with the response of the guard, and of the engine behind it."""
    behind = engine or Engine()
    behind.go.set()
    return await client.ask(Guard(behind))


async def test_rejected_body_returns_400_and_never_reaches_engine() -> None:
    engine = Engine()
    pieces = [b'{"messages": [], "chat_', b'template": 1}']
    client = await answered(Client(pieces=pieces), engine)
    assert client.status == 400
    assert client.error == {
        "message": "This service rejects the field 'chat_template'. Remove it from the request body.",
        "type": "invalid_request_error",
        "param": "chat_template",
        "code": "invalid_body",
    }
    assert not engine.scopes


async def test_accepted_body_and_client_disconnect_reach_engine() -> None:
    pieces, engine = [b'{"n"', b": 1", b"}"], Engine()
    client = await answered(Client(pieces=pieces), engine)
    assert (client.status, engine.bodies) == (200, [b'{"n": 1}'])
    received = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        received.extend([(await receive())["body"], (await receive())["type"]])

    client = Client(pieces=[b"{}"])
    asking = asyncio.create_task(client.ask(Guard(app)))
    await settle()
    client.leave()
    await asking
    assert received == [b"{}", "http.disconnect"]


async def test_form_body_passes_guard() -> None:
    assert (await answered(Client(path="/v1/audio/transcriptions", pieces=[b"--x"]))).status == 200


async def test_body_below_minimum_pace_returns_408_after_grace_period() -> None:
    clock, engine = Clock(), Engine()
    engine.go.set()

    class Slow(Client):
        seconds = 0.0

        async def receive(self) -> Any:
            clock.now += self.seconds
            return await super().receive()

    for seconds, size, status in (14, 1, 200), (16, 1, 408), (30, 2**19, 200), (32, 2**19, 408):
        slow = Slow(path="/v1/audio/transcriptions", pieces=[b"x" * size, b"x", b"x"])
        slow.seconds = seconds
        await slow.ask(Guard(engine, clock))
        assert slow.status == status, (seconds, size)
    assert slow.error["code"] == "request_timeout"


async def test_client_that_stops_sending_gets_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_GRACE_SECONDS", 0.05)

    async def never() -> Any:
        await asyncio.Event().wait()

    client = Client()
    await Guard(Engine())({"type": "http", "path": CHAT, "method": "POST", "headers": []}, never, client.send)
    assert client.status == 408


async def test_incomplete_body_of_disconnected_client_never_reaches_engine() -> None:
    engine, client = Engine(), Client(pieces=[])
    client.leave()
    await Guard(engine)(
        {"type": "http", "path": CHAT, "method": "POST", "headers": []}, client.receive, client.send
    )
    assert not engine.scopes
    assert not client.answered


def door(engine: Engine) -> EngineFront:
    """Return a replica's door, with an engine that answers immediately."""
    engine.go.set()
    return EngineFront(engine, Admission(lambda: 1, lambda: 1), lambda: True)


async def test_guard_path_returns_200_for_own_list_until_replica_leaves() -> None:
    there = door(Engine())
    assert (await Client(path=HEALTH, method="GET").ask(there)).status == 200
    assert (await Client(path=fields.PATH, method="GET").ask(there)).status == 200
    assert (await Client(path="/-/guard/0123456789abcdef", method="GET").ask(there)).status == 404
    there.leave()
    assert (await Client(path=fields.PATH, method="GET").ask(there)).status == 503


async def test_replica_checks_only_bodies_sent_through_guard_path() -> None:
    engine, body = Engine(), b'{"priority": 1}'
    there = door(engine)
    requested = await Client(path=fields.PATH + CHAT, pieces=[body]).ask(there)
    assert (requested.status, requested.error["param"], requested.header(b"x-daybreak-guard")) == (
        400,
        "priority",
        [b"1"],
    )
    requested = await Client(path=fields.PATH + CHAT).ask(there)
    assert (requested.status, requested.header(b"x-daybreak-guard")) == (200, [b"1"])
    assert (engine.scopes[0]["path"], engine.scopes[0]["raw_path"]) == (CHAT, CHAT.encode())
    # What the gateway has looked at, by a list that may be longer.
    assert (await Client(path=CHAT, pieces=[body]).ask(there)).status == 200
    assert (await Client(path=f"/-/guard/0123456789abcdef{CHAT}").ask(there)).status == 404
    assert len(engine.scopes) == 2


async def test_invalid_body_is_rejected_before_queueing() -> None:
    engine = Engine()
    there = door(engine)
    engine.go.clear()
    good = [asyncio.create_task(Client(path=fields.PATH + CHAT).ask(there)) for _ in range(2)]
    await settle()
    bad = Client(path=fields.PATH + CHAT, pieces=[b'{"priority"', b": 1}"])
    assert (await bad.ask(there)).status == 400
    assert (there.admission.running, there.admission.waiting) == (1, 1)
    engine.go.set()
    assert [client.status for client in await asyncio.gather(*good)] == [200, 200]
    assert engine.bodies == [b"{}", b"{}"]


async def test_incomplete_body_occupies_no_admission_slot() -> None:
    class Dripping(Client):
        async def receive(self) -> Any:
            if self.received:
                await asyncio.Event().wait()
            return await super().receive()

    engine = Engine()
    there = door(engine)
    dripping = asyncio.create_task(
        Dripping(path=fields.PATH + CHAT, pieces=[b'{"user": "', b'x"}']).ask(there)
    )
    await settle()
    assert (there.in_progress, there.admission.running) == (1, 0)
    async with asyncio.timeout(60):
        assert (await Client(path=fields.PATH + CHAT).ask(there)).status == 200
    dripping.cancel()
    await asyncio.gather(dripping, return_exceptions=True)
    assert (there.in_progress, there.admission.running) == (0, 0)
