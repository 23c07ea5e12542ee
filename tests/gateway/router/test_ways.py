"""The choice of ways.lua: each way has its share after any number of requests; values stay."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daybreak.gateway.haproxy.runtime import RuntimeApi
from daybreak.gateway.router import config, shares
from daybreak.gateway.router.shares import Share, Way
from tests.budget import examples
from tests.gateway.lua_process import lua_process

WEIGHTS = st.lists(st.integers(1, 1_000_000) | st.integers(1, 100), min_size=1, max_size=16)
some = settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def word(weights: list[int], first: int = 0) -> str:
    ways = tuple(Way(f"s{first + at}", "m", 20000 + at, weight) for at, weight in enumerate(weights))
    return shares.word(Share("r", ("name",), ways))


@pytest.fixture
async def lua(tmp_path: Path) -> AsyncIterator[RuntimeApi]:
    """HAProxy's Lua with nothing but the choice."""
    async with lua_process(Path(__file__).parent / "ways.lua", tmp_path, config.OWN_LUA) as api:
        yield api


async def send_request(api: RuntimeApi, command: str) -> Any:
    return json.loads(await api.command(command))


@some
@given(weights=WEIGHTS, data=st.data())
async def test_each_backend_gets_its_share_for_any_weights_and_request_count(
    lua: RuntimeApi, weights: list[int], data: st.DataObject
) -> None:
    number = data.draw(st.integers(1, 2000))
    found = await send_request(lua, f"spread {word(weights)} {number}")
    total, got = sum(weights), Counter[int]()
    for at, way in enumerate(found, 1):
        got[way] += 1
        # A whole round would be exact; before its end, each share deviates by less than the number of ways.
        assert abs(got[way] - at * weights[way] / total) < len(weights)
    assert sum(got.values()) == number
    for way, weight in enumerate(weights):
        assert abs(got[way] - number * weight / total) < len(weights)


async def test_requests_are_split_exactly_and_evenly_by_weight(lua: RuntimeApi) -> None:
    assert Counter(await send_request(lua, f"spread {word([90, 10])} 10000")) == {0: 9000, 1: 1000}
    # Spread, not one way after the other.
    assert Counter((await send_request(lua, f"spread {word([1, 1])} 100"))[::2]) == {0: 50}


async def test_values_follow_weights_and_move_only_to_added_or_heavier_backend(lua: RuntimeApi) -> None:
    number = 5000
    before = await send_request(lua, f"lead {word([80, 20])} {number}")
    assert before == await send_request(lua, f"lead {word([80, 20])} {number}")
    share = Counter(before)["s1/m"] / number
    assert 0.17 < share < 0.23
    after = await send_request(lua, f"lead {word([80, 20, 25])} {number}")
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} == {"s2/m"}, "only to the way that came"
    assert 0.17 < len(moved) / number < 0.23
    heavier = await send_request(lua, f"lead {word([80, 40])} {number}")
    moved = [(old, new) for old, new in zip(before, heavier, strict=True) if old != new]
    assert {new for _, new in moved} == {"s1/m"}
    assert 0.1 < len(moved) / number < 0.17
