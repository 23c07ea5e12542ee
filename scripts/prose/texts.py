"""Find the prose of a file: documents, docstrings, comments, messages and names."""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple


class Scope(StrEnum):
    """Kind of a text, by which rules apply to it."""

    PROSE = "prose"
    DOCSTRING = "docstring"
    """Prose whose first line must be readable alone, as `kubectl explain` and editors show it."""
    HEADING = "heading"
    NAME = "name"
    """Name of a function, class, argument or variable."""


class Text(NamedTuple):
    """A text of a file."""

    scope: Scope
    line: int
    text: str


_MESSAGE_SPACES = 2
"""Strings with fewer spaces are identifiers and values, not messages."""
_LUA = re.compile(r'--+ ?(?P<comment>.*)$|"(?P<text>[^"]* [^"]* [^"]*)"')
_HASH = re.compile(r'(?:^|\s)#+ (?P<comment>.*)$|"(?P<text>[^"]* [^"]* [^"]*)"')
_HELP = re.compile(r"## (?P<text>.*)$")
_FENCE = "```"


def texts_of(path: Path) -> Iterator[Text]:
    """Yield the texts of a file; none of a file whose kind has no prose."""
    source = path.read_text()
    if path.suffix == ".md":
        yield from _markdown(source)
    elif path.suffix == ".py":
        yield from _python(source)
    elif path.suffix == ".lua":
        yield from _lines(source, _LUA)
    elif path.suffix in (".j2", ".yaml", ".yml", ".toml", ".sh") or path.name.startswith("Dockerfile"):
        yield from _lines(source, _HASH)
    elif path.suffix == ".json":
        yield from _json(source)
    elif path.name == "Makefile":
        yield from _lines(source, _HELP)


def _markdown(source: str) -> Iterator[Text]:
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith(_FENCE):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield Text(Scope.HEADING if line.startswith("#") else Scope.PROSE, number, line)


def _python(source: str) -> Iterator[Text]:
    tree = ast.parse(source)
    documented: set[int] = set()
    for node in ast.walk(tree):
        for value in _docstrings(node):
            documented.add(id(value))
            yield Text(Scope.DOCSTRING, value.lineno, str(value.value))
        name = _name(node)
        if name:
            yield Text(Scope.NAME, node.lineno, name)  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in documented else None
        if isinstance(text, str) and text.count(" ") >= _MESSAGE_SPACES:
            yield Text(Scope.PROSE, node.lineno, text)  # type: ignore[attr-defined]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(Scope.PROSE, token.start[0], token.string.lstrip("# "))


def _docstrings(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings in a body, those of attributes included."""
    body = getattr(node, "body", None)
    for item in body if isinstance(body, list) else []:
        value = item.value if isinstance(item, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else ""


def _lines(source: str, pattern: re.Pattern[str]) -> Iterator[Text]:
    for number, line in enumerate(source.splitlines(), 1):
        for match in pattern.finditer(line):
            for text in filter(None, match.groups()):
                yield Text(Scope.PROSE, number, text)


def _json(source: str) -> Iterator[Text]:
    for text in _strings(json.loads(source)):
        if text.count(" ") >= _MESSAGE_SPACES:
            yield Text(
                Scope.PROSE, source[: max(0, source.find(json.dumps(text)[1:40]))].count("\n") + 1, text
            )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
