"""Requests of a route that take other backends, by header, key, path and user, with real HAProxies."""

import hashlib
import io
import json
from typing import Any

import pytest

from daybreak.api.llmroute.patterns import lua_pattern
from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router.shares import Compared, Match, Share
from tests.gateway.router.test_shared_names import ask, ask_many, got, way
from tests.gateway.town import MIB, Town

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


async def match(town: Town, *matches: Match) -> None:
    """Have the name `chat` lead to the first service, but where something matches."""
    await town.wake(0)
    await town.wake(1)
    await town.router.set_routes(town.routes, [Share("r:1", ("chat",), (way(town, 0),), matches=matches)])


async def went(town: Town, *, path: str = CHAT, body: Any = None, **headers: str) -> int:
    """Return the number of the service that received one request."""
    before = got(town)
    data = json.dumps({"model": "chat", **(body or {})}).encode()
    async with town.clients.post(town.url + path, data=io.BytesIO(data), headers=headers) as answer:
        assert answer.status == 200, await answer.text()
    return [now - then for now, then in zip(got(town), before, strict=True)].index(1)


@pytest.mark.parametrize(
    ("how", "value", "yes", "no"),
    [
        (Compared.EXACT, "beta", ["beta"], ["Beta", "beta2", "bet"]),
        (Compared.PREFIX, "be", ["be", "beta"], ["b", "abe"]),
        (
            Compared.PATTERN,
            lua_pattern("team-[a-c]+"),
            ["team-a", "team-abc"],
            ["team-", "team-d", "xteam-a"],
        ),
        (
            Compared.PATTERN,
            lua_pattern(r"[\w.-]*@x\.com"),
            ["a.b-c@x.com", "@x.com"],
            ["a@xxcom", "a b@x.com"],
        ),
        (Compared.PATTERN, lua_pattern("a*"), ["a" * 128], ["a" * 129]),
    ],
)
async def test_match_by_header_selects_backend(
    town: Town, how: Compared, value: str, yes: list[str], no: list[str]
) -> None:
    await match(town, Match((way(town, 1),), headers=(("x-team", how, value),)))
    for each in yes:
        assert await went(town, **{"X-Team": each}) == 1, each
    for each in no:
        assert await went(town, **{"X-Team": each}) == 0, each
    assert await went(town) == 0


async def test_match_requires_all_conditions_and_first_match_wins(town: Town) -> None:
    beta = ("x-team", Compared.EXACT, "beta")
    await match(
        town,
        Match((way(town, 0),), headers=(beta,), paths=(EMBEDDINGS,)),
        Match((way(town, 1),), headers=(beta, ("x-b", Compared.EXACT, "1"))),
    )
    reported = {"X-Team": "beta", "X-B": "1"}
    assert await went(town, **reported) == 1
    assert await went(town, path=EMBEDDINGS, **reported) == 0
    assert await went(town, **{"X-Team": "beta"}) == 0


async def test_match_by_path_selects_backend(town: Town) -> None:
    await match(town, Match((way(town, 1),), paths=(EMBEDDINGS,)))
    assert [await went(town), await went(town, path=EMBEDDINGS)] == [0, 1]


async def test_match_by_key_selects_backend(town: Town) -> None:
    await match(town, Match((way(town, 1),), keys=(hashlib.sha256(b"secret").hexdigest(),)))
    assert await went(town, Authorization="Bearer secret") == 1
    assert await went(town, **{"X-Api-Key": "secret"}) == 1
    assert await went(town, Authorization="Bearer other") == 0
    assert await went(town) == 0


@pytest.mark.parametrize(
    "text",
    [
        b'{"model": "chat", "us\\u0065r":"alice"}',
        b'{"model": "chat", "user"\n\t:\r "alice"}',
        b'{"user":"\\u0061lice","model":"chat"}',
    ],
)
async def test_match_by_user_accepts_any_json_notation(town: Town, text: bytes) -> None:
    await match(town, Match((way(town, 1),), users=("alice",)))
    assert (await town.ask("odd", text))[0] == 200
    assert got(town) == [0, 1]


@pytest.mark.parametrize("size", [10, 40_000, 2 * MIB])
async def test_match_by_user_works_at_any_position_in_body(town: Town, size: int) -> None:
    await match(town, Match((way(town, 1),), users=("alice", "ann")))
    text = {"messages": [{"role": "user", "content": '"user": "alice"' + "x" * size}]}
    assert await went(town, body={"user": "alice", **text}) == 1
    assert await went(town, body={**text, "user": "ann"}) == 1
    assert await went(town, body={**text, "user": "bob"}) == 0
    assert await went(town, body={**text, "user": ["alice"]}) == 0
    assert await went(town, body=text) == 0
    assert await town.bytes_here() == 0


async def test_match_distributes_requests_by_its_own_shares(town: Town) -> None:
    team = (("x-team", Compared.EXACT, "beta"),)
    await match(town, Match((way(town, 0, 3), way(town, 1, 1)), headers=team))
    for number in range(40):
        assert await ask(town, f"beta-{number}", **{"X-Team": "beta"}) == 200
        if number % 4 == 0:
            await match(town, Match((way(town, 0, 3), way(town, 1, 1)), headers=team))
    assert got(town) == [30, 10]
    assert await ask_many(town, 20) == {200: 20}
    assert got(town) == [50, 10]


async def test_request_moves_to_fallback_if_backend_of_match_fails(town: Town) -> None:
    await match(town)
    await town.gateway.set_gate("s0", Slot(service="service-0", gate=Gate.FAILED, epoch=5, models=("big",)))
    gone = Match((), paths=(EMBEDDINGS,))
    fails = Match((way(town, 0),), paths=(CHAT,))
    share = Share("r", ("chat",), (way(town, 0),), fallback=(way(town, 1, 0),), matches=(gone, fails))
    await town.router.set_routes(town.routes, [share])
    assert [await went(town), await went(town, path=EMBEDDINGS)] == [1, 1]
