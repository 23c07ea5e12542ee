"""Fields of a request's body that are rejected, by path: the same list as in the gateway.

`request_fields.json` is generated from the gateway's list (`daybreak.gateway.fields`); the messages for
rejected fields are the gateway's. A gateway probes PATH to learn whether a replica has the same list, and
leaves the check of bodies to such replicas. The check covers the content that the engine's app parses: with
the same parser, and every occurrence of a name.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_FILE = Path(__file__).with_name("request_fields.json")
_TEXT = _FILE.read_text()
_RULES: Mapping[str, Any] = json.loads(_TEXT)
_EVERYWHERE = dict.fromkeys(_RULES["refused"], "refused")
_BY_PATH: Mapping[str, Mapping[str, str]] = {
    path: _EVERYWHERE | {name: rule for rule, names in rules.items() for name in names}
    for path, rules in _RULES["paths"].items()
}
_CHOICES: int = _RULES["choices"]
_ITEMS: int = _RULES["items"]
_SALT: int = _RULES["salt"]
_MOST_MEMBERS = 2000
"""Maximum number of names in one object. No real request has as many, and checking a name costs more than
reading a text."""
_INSIDE = "chat_template_kwargs"
_TEMPLATE = "chat_template"

PATH = f"/-/guard/{hashlib.sha256(_TEXT.encode()).hexdigest()[:16]}"
"""Path with the same response as the health path, in a replica that checks bodies by this list."""


class Refused(NamedTuple):
    """Reason for the rejection of a body."""

    message: str
    param: str | None


def looks_at(path: str) -> bool:
    """Return True if bodies at a path are JSON that is checked: all but forms."""
    return path not in _RULES["forms"]


def refused(path: str, body: bytes) -> Refused | None:
    """Return why a body is rejected at a path, or None if it passes.

    A body that is not a JSON object is rejected here, because another parser might read it differently.
    """
    if b"\0" in body:
        return Refused("The request body must be JSON in UTF-8.", None)
    try:
        # Objects as tuples of pairs, lists as lists: a dict would keep only the last of two equal names.
        members = json.loads(body, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, tuple):
        return Refused("The request body must be a JSON object.", None)
    rules = _BY_PATH.get(path, {})
    if len(members) > _MOST_MEMBERS:
        return Refused("The request body has too many fields or list items. Send a smaller body.", None)
    for name, value in members:
        found = _judge(name, value, rules.get(name))
        if found is not None:
            return found
    return None


def _judge(name: str, value: Any, rule: str | None) -> Refused | None:
    match rule:
        case "refused" if value is not None:
            return Refused(f"This service rejects the field '{name}'. Remove it from the request body.", name)
        case "counted" if isinstance(value, str) or _more_than(value, _CHOICES):
            return Refused(f"'n' must be a number of at most {_CHOICES}.", name)
        case "listed" if isinstance(value, list) and _work(value) > _ITEMS:
            return Refused(f"The list '{name}' must have at most {_ITEMS} items.", name)
        case "salted" if isinstance(value, str) and ("/" in value or _size(value) > _SALT):
            return Refused(f"'{name}' must have at most {_SALT} bytes and no slash.", name)
        case "entered" if isinstance(value, tuple):
            return _inside(value)
    return None


def _inside(members: tuple[Any, ...]) -> Refused | None:
    if len(members) > _MOST_MEMBERS:
        return Refused("The request body has too many fields or list items. Send a smaller body.", None)
    if any(name == _TEMPLATE and value is not None for name, value in members):
        param = f"{_INSIDE}.{_TEMPLATE}"
        return Refused(
            f"This service rejects the field '{_TEMPLATE}'. Remove it from the request body.", param
        )
    return None


def _more_than(value: Any, most: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > most


def _size(value: str) -> int:
    """Return the size of a text in bytes. Half of a surrogate pair counts as one."""
    return len(value.encode(errors="replace"))


def _work(items: list[Any]) -> int:
    """Return the pieces of work in a list. Numbers do not count: a list of them is one text in tokens."""
    return sum(isinstance(item, str | list | tuple) for item in items)
