"""Error responses that the gateway generates itself, read from `responses.json`.

HAProxy's configuration (`respond`), its Lua (`lua`) and docs/responses.md are generated from this one table.
A text in it may have placeholders, such as `{limit}`: each call that sends the response gives their values.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("responses.json")
LUA_FILE = "responses.lua"
"""Name of the Lua module in the folder of the gateway."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_WORD = re.compile(r"[\w-]+")
_TYPES = ("invalid_request_error", "rate_limit_error", "server_error")


class Haproxy(StrEnum):
    """The HAProxies that send a response."""

    HOLD = "hold"
    """The HAProxy in front of the services."""
    ROUTER = "router"
    """The HAProxies of the namespace's address, of LLMRoutes and of large bodies."""
    BOTH = "both"

    @property
    def parts(self) -> tuple["Haproxy", ...]:
        """Both HAProxies for `BOTH`, otherwise the one itself."""
        return (Haproxy.HOLD, Haproxy.ROUTER) if self is Haproxy.BOTH else (self,)


@dataclass(frozen=True)
class Response:
    """An error response in OpenAI's shape. Raises ValueError if it is not valid."""

    name: str
    """Unique name, by which HAProxy's configuration and Lua refer to the response."""
    status: int
    type: str
    """OpenAI's type of the error."""
    code: str
    """Code of the error, for programs; several responses may share one."""
    message: str
    haproxy: Haproxy
    when: str
    """Situation in which the client receives the response, as one sentence."""
    param: str | None = None
    """Field of the request that is wrong."""
    retry_after: int | str | None = None
    """Value of the header Retry-After in seconds, or a placeholder for it. 10 is about the time in which a
    gateway receives a new Secret."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers."""
    default: bool = False
    """True if HAProxy sends the response for every error of this status that it detects itself."""

    def __post_init__(self) -> None:
        """Check all that a type does not guarantee."""
        problems = [
            problem
            for problem, found in {
                "the name is not in snake case": not _NAME.fullmatch(self.name),
                "the code is not in snake case": not _NAME.fullmatch(self.code),
                "the status is no error": not 400 <= self.status <= 599,
                "the type is unknown": self.type not in _TYPES,
                "the message is empty": not self.message,
                "the situation is not one sentence": not self.when.endswith(".") or ". " in self.when,
                "a text has a brace that is no placeholder": any(map(_stray_brace, self._texts)),
                "a text is not printable ASCII": not all(
                    text.isascii() and text.isprintable() for text in self._texts
                ),
                "Retry-After is neither seconds nor a placeholder": isinstance(self.retry_after, str)
                and not _PLACEHOLDER.fullmatch(self.retry_after),
                "a default has placeholders": self.default and bool(self.placeholders),
            }.items()
            if found
        ]
        if problems:
            raise ValueError(f"{self.name}: {'; '.join(problems)}")

    @classmethod
    def parse(cls, name: str, entry: Mapping[str, Any]) -> "Response":
        """Return the response of an entry of the table. Raises ValueError or TypeError if it is not valid."""
        return cls(name=name, **{**entry, "haproxy": Haproxy(entry["haproxy"])})

    @property
    def all_headers(self) -> Mapping[str, str]:
        """Headers in addition to Content-Type, Retry-After included."""
        after = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return {**self.headers, **after}

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of the values that the caller must give to send the response."""
        return frozenset(name for text in self._texts for name in _PLACEHOLDER.findall(text))

    @property
    def _texts(self) -> tuple[str, ...]:
        return (self.message, self.param or "", *self.all_headers.values())

    def body(self, **values: object) -> str:
        """Return the body as JSON. Raises KeyError if a value is missing."""
        param = None if self.param is None else _filled(self.param, values)
        message = _filled(self.message, values)
        return json.dumps(
            {"error": {"message": message, "type": self.type, "param": param, "code": self.code}}
        )


@cache
def table() -> Mapping[str, Response]:
    """Return all responses by name, in the order of their statuses. Raises ValueError if one is not valid."""
    responses = {name: Response.parse(name, entry) for name, entry in json.loads(SOURCE.read_text()).items()}
    statuses = [response.status for response in responses.values()]
    if statuses != sorted(statuses):
        raise ValueError("the responses are not in the order of their statuses")
    return responses


def defaults() -> list[str]:
    """Return the names of the responses that HAProxy sends for errors that it detects itself.

    HAProxy 2.8 does not use them before a request's head is complete and well formed: it then responds with a
    fixed 400 or 408 in HTML, which neither `http-error` nor `errorfile` changes.
    """
    return [name for name, response in table().items() if response.default]


def respond(name: str, **values: object) -> str:
    """Return the arguments of `http-request return` and `http-error` that send a response.

    Raises KeyError for an unknown name, and ValueError if the values are not those of the placeholders or do
    not fit HAProxy's configuration.
    """
    response = table()[name]
    if values.keys() != response.placeholders:
        raise ValueError(f"{name} needs values for {sorted(response.placeholders)}, not for {sorted(values)}")
    body = response.body(**values).replace("'", r"\u0027")  # HAProxy's single quotes have no escape
    headers = {header: _filled(text, values) for header, text in response.all_headers.items()}
    if not all(map(_WORD.fullmatch, headers.values())):
        raise ValueError(f"{name}: HAProxy's configuration takes no spaces or quotes in a header's value")
    ends = "".join(f" hdr {header} {text}" for header, text in headers.items())
    return f"status {response.status} content-type application/json string '{body}'{ends}"


def lua() -> str:
    """Return the table as a module of Lua, for answers.lua."""
    return "return {\n" + "".join(f"    {name} = {_entry(each)},\n" for name, each in table().items()) + "}\n"


def _entry(response: Response) -> str:
    headers = "".join(
        f" [{_quoted(header.lower())}] = {_quoted(text)}," for header, text in response.all_headers.items()
    )
    texts = {"type": response.type, "code": response.code, "message": response.message}
    if response.param is not None:
        texts["param"] = response.param
    fields = "".join(f"{key} = {_quoted(text)}, " for key, text in texts.items())
    return f"{{ status = {response.status}, {fields}headers = {{{headers} }} }}"


def _quoted(text: str) -> str:
    """Return a text of printable ASCII as a string of Lua."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _filled(text: str, values: Mapping[str, object]) -> str:
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), text)


def _stray_brace(text: str) -> bool:
    rest = _PLACEHOLDER.sub("", text)
    return "{" in rest or "}" in rest
