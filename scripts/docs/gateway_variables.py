"""Page variables.md of the gateway: request variables of HAProxy, with the files that use each."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

GATEWAY = Path(__file__).parents[2] / "operator" / "src" / "daybreak" / "gateway"
MEANINGS = Path(__file__).with_name("gateway_variables.json")
FOLDERS = ("hold", "router")
_VARIABLE = re.compile(r"\btxn\.daybreak_([a-z_]+)")
_SET = re.compile(r"\b(?:set-var|unset-var)\(txn\.daybreak_([a-z_]+)\)")
_CONSTANT = re.compile(r'^local ([A-Z_]+) = "txn\.daybreak_([a-z_]+)"', re.MULTILINE)
_LUA_SET = re.compile(r'\b(?:un)?set_var\((?:"txn\.daybreak_([a-z_]+)"|([A-Z_]+))')
_LUA_NAME = re.compile(r'"txn\.daybreak_([a-z_]+)"|\b([A-Z_]{3,})\b')
_WAITS = "slots.unknown("
"""Function that sets and reads the variable in its argument."""
_HEAD = """\
<!-- Made by `make generate` from templates, Lua and scripts/docs/gateway_variables.json; do not edit. -->
# Request variables

HAProxy rules and Lua exchange values in request variables, `txn.daybreak_NAME`. For a variable whose meaning
starts with *Set*, only the presence matters.
"""


class Uses:
    """Files that set a variable, and files that read it."""

    def __init__(self) -> None:
        self.set: set[str] = set()
        self.read: set[str] = set()


def uses(folder: str) -> Mapping[str, Uses]:
    """Return the variables of a folder's HAProxies (`hold` or `router`), with the files that use each."""
    found: dict[str, Uses] = defaultdict(Uses)
    for file in sorted((GATEWAY / folder).rglob("*.*")):
        name = file.relative_to(GATEWAY / folder).as_posix()
        if file.suffix == ".j2" or file.name == "external.py":
            _note(found, name, _template(file.read_text()))
        elif file.suffix == ".lua":
            _note(found, name, _lua(file.read_text()))
    for file in sorted((GATEWAY / "lua").glob("*.lua")):
        shared = [(each, sets) for each, sets in _lua(file.read_text()) if each in found]
        _note(found, f"../lua/{file.name}", iter(shared))
    return found


def meanings() -> Mapping[str, Mapping[str, str]]:
    """Return the meaning of each variable, by folder and name."""
    found: Mapping[str, Mapping[str, str]] = json.loads(MEANINGS.read_text())
    return found


def variables_md() -> str:
    """Return the page variables.md. Raises KeyError if a variable has no meaning."""
    titles = {"hold": "The HAProxy in front of the services", "router": "The router's two HAProxies"}
    return _HEAD + "".join(f"\n## {titles[folder]}\n\n{_table(folder)}" for folder in FOLDERS)


def _table(folder: str) -> str:
    lines = ["| Variable | Meaning | Set by | Read by |", "| --- | --- | --- | --- |"]
    for name, found in sorted(uses(folder).items()):
        files = (", ".join(f"`{each}`" for each in sorted(part)) for part in (found.set, found.read))
        lines.append(f"| `{name}` | {meanings()[folder][name]} | {' | '.join(files)} |")
    return "\n".join(lines) + "\n"


def _note(found: dict[str, Uses], file: str, variables: Iterator[tuple[str, bool]]) -> None:
    for name, sets in variables:
        (found[name].set if sets else found[name].read).add(file)


def _template(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each variable of a template, with True if a rule sets it."""
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        yield from ((name, True) for name in _SET.findall(line))
        yield from ((name, False) for name in _VARIABLE.findall(_SET.sub("", line)))


def _lua(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each variable of a Lua file, with True if a call sets it."""
    constants = {constant: name for constant, name in _CONSTANT.findall(text)}
    for line in _CONSTANT.sub("", text).splitlines():
        code = line.partition("--")[0]
        for literal, constant in _LUA_SET.findall(code):
            if literal or constant in constants:
                yield literal or constants[constant], True
        for literal, constant in _LUA_NAME.findall(_LUA_SET.sub("", code)):
            if literal or constant in constants:
                yield literal or constants[constant], False
                if _WAITS in code:
                    yield literal or constants[constant], True
