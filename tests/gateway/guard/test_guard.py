"""The scanner of guard.lua says of any body, cut anywhere, what a whole JSON parser says."""

import itertools
import json
import math
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy.runtime import RuntimeApi
from daybreak.gateway.hold import config
from tests.budget import examples
from tests.gateway.lua_process import lua_process

MAX_N = 16
REFUSED = ("chat_template", "mm_processor_kwargs", "media_io_kwargs", "priority", "kv_transfer_params")
CHAT = "/v1/chat/completions"
RULES = fields.rules(CHAT)

many = settings(max_examples=examples(300), deadline=None)
on_the_loop_of_lua = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lua(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RuntimeApi]:
    """HAProxy's Lua with nothing but the scanner, which keeps nothing from one body to the next."""
    folder = tmp_path_factory.mktemp("lua")
    (folder / "fields.lua").write_text(fields.lua())
    async with lua_process(Path(__file__).parent / "scan.lua", folder, config.OWN_LUA, folder) as api:
        yield api


async def verdict(
    lua: RuntimeApi, body: bytes, cuts: Sequence[int] = (), path: str = CHAT, extra: str = "-"
) -> str | None:
    """Return the field that the scanner rejects in a body cut at those places, or None."""
    places = sorted({min(cut, len(body)) for cut in cuts} | {0, len(body)})
    pieces = [body[here:there].hex() for here, there in itertools.pairwise(places) if here < there]
    answer = await lua.command(" ".join(["scan", path, extra, str(MAX_N), *pieces]))
    if answer == "passes":
        return None
    assert answer.startswith("refused")
    return answer.removeprefix("refused").strip()


class Pairs(list[tuple[str, Any]]):
    """An object with every occurrence of its keys."""


def expected(body: bytes) -> bool:
    """Return True if Python's parser detects a field that must be rejected."""
    whole = json.loads(body, object_pairs_hook=Pairs)
    if not isinstance(whole, Pairs):
        return False
    for key, value in whole:
        if RULES.get(key) == "refused" and value is not None:
            return True
        if key == "cache_salt" and isinstance(value, str) and "/" in value:
            return True
        if key == "n" and (isinstance(value, str) or (_is_number(value) and value > MAX_N)):
            return True
        inside = value if key == "chat_template_kwargs" and isinstance(value, Pairs) else []
        if any(inner == "chat_template" and found is not None for inner, found in inside):
            return True
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


@st.composite
def written(draw: st.DrawFn, text: str) -> str:
    """Return a JSON string in which some characters are escaped needlessly."""
    parts = []
    for char in text:
        way = draw(st.integers(0, 5))
        code = f"{ord(char):04x}"
        if way == 0 and ord(char) < 0x10000:
            parts.append("\\u" + draw(st.sampled_from([code, code.upper()])))
        else:
            parts.append(json.dumps(char, ensure_ascii=draw(st.booleans()))[1:-1])
    return '"' + "".join(parts) + '"'


keys = st.sampled_from(
    [
        *REFUSED,
        "chat_template_kwargs",
        "cache_salt",
        "n",
        "messages",
        "Chat_template",
        "chat_template ",
        "\\",
        '"',
        "\\u006e",
    ]
) | st.text(st.characters(codec="utf-8"), max_size=8)
space = st.sampled_from(["", "", " ", "\n\t ", "\r\n"])
scalars = st.sampled_from(
    ["null", "true", "false", "0", "1", "16", "17", "16.5", "1e3", "1E-2", "-20", "1e400", "Infinity", "NaN"]
) | st.integers().map(str)


@st.composite
def documents(draw: st.DrawFn, depth: int = 3) -> str:
    """Return JSON of any shape, with keys that matter at all depths."""
    kind = draw(st.integers(0, 9))

    def pad() -> str:
        return draw(space)

    if depth == 0 or kind < 2:
        return pad() + draw(scalars) + pad()
    if kind < 4:
        return pad() + draw((keys | st.sampled_from(["/", "a/b"])).flatmap(written)) + pad()
    inner = documents(depth - 1)
    if kind < 5:
        return pad() + "[" + ",".join(draw(st.lists(inner, max_size=3))) + pad() + "]"
    members = draw(st.lists(st.tuples(keys.flatmap(written), inner), max_size=4))
    return (
        pad() + "{" + ",".join(f"{pad()}{key}{pad()}:{value}" for key, value in members) + pad() + "}" + pad()
    )


@st.composite
def conversations(draw: st.DrawFn) -> str:
    """Bodies in which the same stands between texts again and again, and now and then something else."""
    gap = draw(
        st.sampled_from(
            ['}, {"role": "%s", "content": ', '},{"role":"%s","content":', ', "name": "%s", "x": ']
        )
    )
    texts = st.sampled_from(['"}, {"', '"\\"}]"', '"chat_template"', '"a\\\\"', '"]}"', "[-1, 2]", "null"])
    turns = draw(st.lists(st.tuples(st.booleans(), texts | documents(1)), min_size=1, max_size=6))
    message = "".join(
        (gap % "user" if same else "}, {" + draw(space) + '"content": ') + text for same, text in turns
    )
    more = draw(st.sampled_from(["", ', "chat_template": "x"', ', "n": 17', ', "messages": []']))
    body = '{"messages": [{"content": "a"' + message + "}]" + more + "}"
    return body if draw(st.booleans()) else '{"tools": {"x": ' + body + '}, "model": "m"}'


@on_the_loop_of_lua
@many
@given(text=documents() | conversations(), cuts=st.lists(st.integers(0, 300), max_size=12))
async def test_scanner_agrees_with_json_parser_for_any_body_and_cuts(
    lua: RuntimeApi, text: str, cuts: list[int]
) -> None:
    body = text.encode()
    assert (await verdict(lua, body, cuts) is not None) == expected(body)
    if expected(body):
        assert unusual(body)


def unusual(body: bytes, path: str = CHAT) -> bool:
    """Return True if a body must be read as JSON: HAProxy checks this for a small, complete body."""
    return re.search(fields.unusual(path).encode(), body) is not None


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        ('{"model": "m", "messages": [{"role": "user", "content": "a template, n"}], "max_tokens": 5}', True),
        ('{"model": "m", "messages": [], "user": "caf\u00e9 \\n"}', True),
        ('{"unheard_of": {"prompt": "a"}, "client_metadata": {"x-id": "a"}}', True),
        ('{"tools": [{"function": {"parameters": {"properties": {"city": {}}}}}]}', True),
        ('{"cache_salt": "a"}', False),
        ('{"n": 1}', False),
        ('{"\\u006E": 1}', False),
        ('{"messages": [], "chat\\u005ftemplate": 1}', False),
    ],
)
def test_only_body_with_suspect_key_needs_scan(body: str, passes: bool) -> None:
    assert unusual(body.encode()) != passes


@on_the_loop_of_lua
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ('{"messages": [], "chat_template": "{{ x }}"}', "chat_template"),
        ('{"chat\\u005ftemplate": 1}', "chat_template"),
        ('{"\\u0063\\u0068\\u0061\\u0074_template": 1}', "chat_template"),
        ('{"chat_template": null}', None),
        ('{"chat_template": null, "chat_template": "x"}', "chat_template"),
        ('{"chat_template_kwargs": {"a": {}, "chat_template": "x"}}', "chat_template_kwargs.chat_template"),
        ('{"chat_template_kwargs": {"enable_thinking": false}, "n": 16}', None),
        ('{"chat_template_kwargs": {"inner": {"chat_template": "x"}}}', None),
        ('{"chat_template_kwargs": {"n": 100}}', None),
        ('{"messages": [{"chat_template": "x", "n": 100}]}', None),
        ('{"messages": "\\"chat_template\\": 1, \\\\"}', None),
        ('{"x\\\\": null, "chat_template": 2}', "chat_template"),
        ('{"\\\\u006e": 100}', None),
        ('{"user": "x", "unheard_of": 1}', None),
        ('{"unheard_of": {"chat_template": 1}, "chat_template": 1}', "chat_template"),
        ('{"cache_salt": "tenant-7", "n": 1}', None),
        ('{"cache_salt": ["a/b"]}', None),
        ('{"cache_salt": "a/b"}', "cache_salt"),
        ('{"cache_salt": "a\\u002fb"}', "cache_salt"),
        ('{"cache_salt": "' + "s" * fields.MAX_SALT + '"}', None),
        ('{"cache_salt": "' + "s" * (fields.MAX_SALT + 1) + '"}', "cache_salt"),
        ('{"metadata": {"cache_salt": "a/b"}}', None),
        ('{"priority": -5}', "priority"),
        ('{"metadata": {"priority": 1}, "messages": [{"priority": 1}]}', None),
        ('{"mm_processor_kwargs": {}}', "mm_processor_kwargs"),
        ('{"media_io_kwargs": []}', "media_io_kwargs"),
        ('{"n": 17}', "n"),
        ('{"n": "17"}', "n"),
        ('{"n": 0.0' + "0" * 100 + "}", "n"),
        ('[{"chat_template": 1}]', None),
        ('"chat_template"', None),
        ("\ufeff" + '{"n": 17}', "n"),
        ("", None),
        ("chat_template", None),
        ('{"' + "k" * 3000 + '": null, "n": 17}', "n"),
    ],
)
async def test_scanner_verdict_is_same_for_every_cut(lua: RuntimeApi, body: str, param: str | None) -> None:
    data = body.encode()
    for cut in range(min(len(data), 120) + 1):
        assert await verdict(lua, data, [cut, cut + 1]) == param
    assert param is None or unusual(data)


@on_the_loop_of_lua
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
async def test_utf16_and_utf32_bodies_are_rejected(lua: RuntimeApi, encoding: str) -> None:
    body = '{"chat_template": 1}'.encode(encoding)
    assert json.loads(body)  # Python's parser reads it
    assert await verdict(lua, body) == "-"


@on_the_loop_of_lua
@pytest.mark.parametrize(
    ("unit", "most"),
    [
        pytest.param(b'"' + b"a word and another one, " * 40 + b'\n",', 0.4, id="prose"),
        pytest.param(b"[" + b"12345, " * 500 + b"0],", 0.2, id="numbers"),
        pytest.param(b"[" + b"[]," * 500 + b"0],", 75, id="brackets"),
    ],
)
async def test_scan_cost_grows_linearly_with_body_size(lua: RuntimeApi, unit: bytes, most: float) -> None:
    half, whole = [await lua.json(f"work {unit.hex()} {size // len(unit)}") for size in (2**19, 2**20)]
    assert whole["bytes"] > 1.9 * half["bytes"]
    assert 0 < whole["instructions"] < 2.1 * half["instructions"]
    assert whole["instructions"] / whole["bytes"] < most


@on_the_loop_of_lua
@pytest.mark.parametrize(
    ("path", "body", "passes"),
    [
        ("/v1/embeddings", '{"input": ["a", "b", "c", "d"]}', True),
        ("/v1/embeddings", '{"input": ["a", "b", "c", "d", "e"], "model": "m"}', False),
        ("/v1/embeddings", '{"input": [[1], [2], [3], [4], [5]]}', False),
        ("/v1/embeddings", '{"input": [1, 2, 3, 4, 5, 6, 7]}', True),
        ("/v1/embeddings", '{"input": "[[[[[]]]]]", "user": "u"}', True),
        (
            "/v1/completions",
            '{"prompt": ["a", "b", ["c", "d", "e"], "f"], "stop": ["1", "2", "3", "4", "5"]}',
            True,
        ),
        ("/v1/completions", '{"prompt": ["a", "b", ["c", "d", "e"], "f", "g"]}', False),
        ("/v1/score", '{"text_1": "a", "text_2": ["a", "b", "c", "d", "e"]}', False),
        ("/rerank", '{"query": "a", "documents": [{"text": "b"}, {}, {}, {}, {}]}', False),
        ("/v1/chat/completions", '{"messages": [{}, {}, {}, {}, {}, {}]}', True),
    ],
)
async def test_list_longer_than_limit_is_rejected_for_every_cut(
    lua: RuntimeApi, path: str, body: str, passes: bool
) -> None:
    data = body.encode()
    for cut in range(len(data) + 1):
        assert (await verdict(lua, data, [cut, cut + 1], path) is None) == passes
    assert passes or unusual(data, path)


@on_the_loop_of_lua
async def test_scanner_accepts_fields_listed_as_extra(lua: RuntimeApi) -> None:
    for name in fields.REFUSED:
        body = f'{{"{name}": {{"a": 1}}}}'.encode()
        assert await verdict(lua, body) == name
        assert await verdict(lua, body, extra=name) is None
    body = b'{"chat_template_kwargs": {"chat_template": "x"}, "n": 17}'
    assert await verdict(lua, body) == "chat_template_kwargs.chat_template"
    assert await verdict(lua, body, extra="chat_template") == "n"


@on_the_loop_of_lua
async def test_unknown_field_passes_on_every_path(lua: RuntimeApi) -> None:
    for path in fields.quick().values():
        assert await verdict(lua, b'{"dimensions": 8, "of_tomorrow": {"a": 1}}', path=path[0]) is None
