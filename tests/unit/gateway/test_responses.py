"""The gateway's table of error responses: each entry is valid and used, and each call fits its entry."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pytest
from jinja2 import nodes

from daybreak.gateway import hold, router
from daybreak.gateway.lua import LUA
from daybreak.gateway.responses import responses
from daybreak.gateway.responses.responses import Haproxy, Response

ROOT = Path(__file__).parents[3]
GATEWAY = LUA.parent
FOLDERS = {Path(hold.__file__).parent: Haproxy.HOLD, Path(router.__file__).parent: Haproxy.ROUTER}
"""Folders with the Lua and configuration of one HAProxy. `gateway/lua` belongs to both."""

SENDS = re.compile(r"(?<!function )(?<![\w.:])(answers\.respond|self:refuse|refuse|take_away)\(")
"""Calls in Lua that name a response."""
FORWARDED = {
    ("keys.lua", "answers.respond", "name"),
    ("late.lua", "answers.respond", "name"),
    ("body.lua", "answers.respond", "scanner.refusal"),
    ("hold.lua", "answers.respond", "slot.gone.name"),
}
"""Calls that forward a name from another call of `SENDS`: file, function and argument."""

ENTRY = {
    "status": 429,
    "type": "rate_limit_error",
    "code": "queue_full",
    "message": "{held} requests wait.",
    "haproxy": "hold",
    "when": "The queue is full.",
}


class Call(NamedTuple):
    """A place in the code that sends a response."""

    file: Path
    name: str
    values: frozenset[str]

    @property
    def haproxy(self) -> Haproxy:
        """The HAProxy that runs the file, or `Haproxy.BOTH` for shared files."""
        return next((each for folder, each in FOLDERS.items() if folder in self.file.parents), Haproxy.BOTH)


def arguments(text: str) -> list[str]:
    """Return the arguments of a call, from the text after its opening bracket."""
    depth, quoted, start, found = 0, False, 0, []
    for at, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "({":
            depth += 1
        elif char == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
        elif char in ")}":
            if depth == 0:
                return [*found, text[start:at].strip()]
            depth -= 1
    raise AssertionError(f"a call without an end: {text[:80]}")


def calls_in_lua(file: Path, text: str) -> Iterator[Call]:
    """Yield the calls of `SENDS`. Fails if the name or the values of a call cannot be read."""
    code = re.sub(r"--[^\n]*", "", text)
    for match in SENDS.finditer(code):
        given = arguments(code[match.end() :])
        at = next((at for at, each in enumerate(given) if re.fullmatch(r'"\w+"', each)), None)
        if at is None:
            assert (file.name, match[1], given[1]) in FORWARDED, f"{file.name}: {match[0]}{', '.join(given)}"
            continue
        values = given[at + 1] if at + 1 < len(given) else "{}"
        assert re.fullmatch(r"\{.*\}", values, re.DOTALL), f"{file.name}: {values} is no table"
        keys = [each.partition("=")[0].strip() for each in arguments(values[1:])]
        yield Call(file, given[at].strip('"'), frozenset(key for key in keys if key))


def calls_in_template(file: Path) -> Iterator[Call]:
    for call in jinja2.Environment(autoescape=True).parse(file.read_text()).find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == "respond":
            (name,) = call.args
            if isinstance(name, nodes.Const):
                yield Call(file, name.value, frozenset(each.key for each in call.kwargs))
            else:
                yield from (Call(file, each, frozenset()) for each in responses.defaults())


@cache
def calls() -> list[Call]:
    lua = [call for file in GATEWAY.rglob("*.lua") for call in calls_in_lua(file, file.read_text())]
    return lua + [call for file in GATEWAY.rglob("*.j2") for call in calls_in_template(file)]


@pytest.mark.parametrize("call", calls(), ids=lambda call: f"{call.file.name}-{call.name}")
def test_call_gives_the_values_of_an_entry(call: Call) -> None:
    assert call.values == responses.table()[call.name].placeholders


@pytest.mark.parametrize("name", responses.table())
def test_entry_is_sent_by_the_haproxy_that_it_names(name: str) -> None:
    places = [call for call in calls() if call.name == name]
    assert places, "nothing sends it"
    expected = set(responses.table()[name].haproxy.parts)
    if all(GATEWAY / "lua" not in call.file.parents for call in places):
        assert {call.haproxy for call in places} == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('answers.respond(txn, "a_b")', [("a_b", set())]),
        ('refuse(txn, of(x, y), "a", { b = f(1, 2), c = d })', [("a", {"b", "c"})]),
        ('self:refuse("a", { b = self.b,\n    c = "}, d = (" })', [("a", {"b", "c"})]),
        ('-- answers.respond(txn, "a")\ntake_away(slot, "b", { c = 1 })', [("b", {"c"})]),
        ("local function refuse(txn, name)\nfunction Scanner:refuse(name)", []),
    ],
)
def test_parser_reads_calls_of_lua(text: str, found: list[tuple[str, set[str]]]) -> None:
    assert [(call.name, set(call.values)) for call in calls_in_lua(Path("a.lua"), text)] == found


@pytest.mark.parametrize("text", ["answers.respond(txn, name)", 'answers.respond(txn, "a", values)'])
def test_parser_fails_on_unreadable_call(text: str) -> None:
    with pytest.raises(AssertionError):
        list(calls_in_lua(Path("a.lua"), text))


def test_sources_have_no_response_outside_of_the_table() -> None:
    files = [file for file in GATEWAY.rglob("*") if file.suffix in (".py", ".lua", ".j2")]
    sources = {file: file.read_text() for file in files if file.parent.name != "responses"}
    assert [file.name for file, text in sources.items() if '{"error": {"' in text] == ["answers.lua"]
    parts = {part for each in responses.table().values() for part in re.split(r"\{\w+\}", each.message)}
    long = [part for part in parts if len(part) > 20]
    for file, text in sources.items():
        assert not re.search(
            r'error_body\(|answers\.refuse\(|"(invalid_request|rate_limit|server)_error"', text
        ), file
        assert not re.search(r"(return|http-error) status [45]", text), file
        assert not [part for part in long if part in text], file


@pytest.mark.parametrize("response", responses.table().values(), ids=lambda each: each.name)
def test_body_is_json_with_any_value(response: Response) -> None:
    values = {name: f'"{name}\\\n{{x}}' for name in response.placeholders}
    body = json.loads(response.body(**values))["error"]
    assert (body["type"], body["code"]) == (response.type, response.code)
    assert list(body) == ["message", "type", "param", "code"]
    for name in re.findall(r"\{(\w+)\}", response.message):
        assert values[name] in body["message"]


def test_defaults_have_one_response_for_each_status() -> None:
    entries = [responses.table()[name] for name in responses.defaults()]
    statuses = [entry.status for entry in entries]
    assert len(set(statuses)) == len(statuses)
    assert {entry.haproxy for entry in entries} == {Haproxy.BOTH}


def test_respond_returns_arguments_of_haproxy() -> None:
    message = responses.respond("url_too_long", limit=7)
    assert message.startswith("status 414 content-type application/json string '{")
    assert "exceeds 7 bytes" in message
    assert responses.respond("too_many_attempts").endswith("}' hdr Retry-After 60")
    assert responses.respond("draining").endswith("}' hdr Cache-Control no-store")


def test_respond_escapes_the_quotes_of_haproxy() -> None:
    _, body, headers = responses.respond("url_too_long", limit="'").split("'")
    assert (json.loads(body)["error"]["message"], headers) == ("The URL exceeds ' bytes.", "")


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("no_such_response", {}, KeyError),
        ("url_too_long", {}, ValueError),
        ("url_too_long", {"limit": 7, "length": 8}, ValueError),
        ("draining", {"limit": 7}, ValueError),
        ("model_failed", {"reason": "a", "retry_after": "5 if TRUE"}, ValueError),
    ],
)
def test_respond_rejects_values_that_do_not_fit(
    name: str, values: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        responses.respond(name, **values)


def test_entry_is_parsed() -> None:
    response = Response.parse("full", {**ENTRY, "retry_after": "{seconds}", "param": "n"})
    assert response.placeholders == {"held", "seconds"}
    assert response.all_headers == {"Retry-After": "{seconds}"}
    assert json.loads(response.body(held=3, seconds=5))["error"]["message"] == "3 requests wait."


@pytest.mark.parametrize(
    "change",
    [
        {"status": 200},
        {"status": 600},
        {"type": "error"},
        {"code": "Queue-Full"},
        {"message": ""},
        {"message": "{held requests wait."},
        {"message": "{Held} requests wait."},
        {"message": "„{held}“ requests wait."},
        {"message": "{held}\nrequests wait."},
        {"when": "The queue is full"},
        {"when": "The queue is full. Retry."},
        {"haproxy": "other"},
        {"retry_after": "soon"},
        {"default": True},
    ],
    ids=str,
)
def test_invalid_entry_is_rejected(change: dict[str, Any]) -> None:
    Response.parse("full", ENTRY)
    with pytest.raises(ValueError, match=r"full|other"):
        Response.parse("full", {**ENTRY, **change})


def test_invalid_name_or_unknown_key_is_rejected() -> None:
    with pytest.raises(ValueError, match="snake case"):
        Response.parse("queue-full", ENTRY)
    with pytest.raises(TypeError, match="satus"):
        Response.parse("full", {**ENTRY, "satus": 429})


def test_troubleshooting_names_statuses_and_codes_of_the_table() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    text = page.split("## Responses to clients\n")[1].split("\n## ")[0]
    named = re.findall(r"\b([45]\d\d) (?:with )?`([a-z_]+)`", text)
    assert len(named) > 12
    known = {(str(each.status), each.code) for each in responses.table().values()}
    assert set(named) <= known


@pytest.mark.parametrize("page", ["requests", "troubleshooting", "architecture"])
def test_page_links_to_the_list_of_responses(page: str) -> None:
    assert "](responses.md)" in (ROOT / "docs" / f"{page}.md").read_text()
