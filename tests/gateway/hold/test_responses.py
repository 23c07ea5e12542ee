"""Lua and Python read the table of responses in the same way."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from daybreak.gateway.haproxy.runtime import RuntimeApi
from daybreak.gateway.responses import responses
from tests.gateway.lua_process import lua_process

on_the_loop_of_lua = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lua(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RuntimeApi]:
    folder = tmp_path_factory.mktemp("lua")
    (folder / responses.LUA_FILE).write_text(responses.lua())
    async with lua_process(Path(__file__).parent / "respond.lua", folder, folder) as api:
        yield api


async def respond(lua: RuntimeApi, name: str, values: Mapping[str, object]) -> Any:
    words = [f"{key}={quote(str(value), safe='')}" for key, value in values.items()]
    return json.loads(await lua.command(" ".join(["respond", name, *words])))


@on_the_loop_of_lua
@pytest.mark.parametrize("name", responses.table())
async def test_lua_response_equals_python_response(lua: RuntimeApi, name: str) -> None:
    response = responses.table()[name]
    values = {key: f'{key} "\\%1 {{held}} {{{key}}}' for key in response.placeholders}
    found = await respond(lua, name, values)
    assert found["status"] == response.status
    assert found["body"] == response.body(**values)
    expected = {"cache-control": "no-store", "content-type": "application/json"}
    for header, text in response.all_headers.items():
        expected[header.lower()] = values.get(text.strip("{}"), text)
    assert found["headers"] == expected


@on_the_loop_of_lua
async def test_missing_value_sets_field_to_null_and_omits_header(lua: RuntimeApi) -> None:
    found = await respond(lua, "field_refused", {"field": "priority"})
    assert json.loads(found["body"])["error"]["param"] is None
    found = await respond(lua, "hold_full_waking", {"held": 3})
    assert "retry-after" not in found["headers"]
