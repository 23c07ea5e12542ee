"""The section `Args:` of a docstring names parameters that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("operator/src", "runtime/src", "cluster", "e2e", "bench", "scripts", "tests")
_NAME = re.compile(r"^(\s+)\*{0,2}(\w+): ")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parameters(function: Function) -> set[str]:
    """Return the names of a function's parameters."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {each.arg for each in every if each is not None}


def known_names(node: Function | ast.ClassDef) -> set[str]:
    """Return the names that `Args:` may contain: parameters, or the fields of a dataclass."""
    if not isinstance(node, ast.ClassDef):
        return parameters(node)
    annotated = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
    fields = {target.id for target in annotated if isinstance(target, ast.Name)}
    # Ray Serve also calls an asynchronous `__init__`.
    starts = [each for each in node.body if isinstance(each, Function) and each.name == "__init__"]
    return fields.union(*map(parameters, starts))


def documented_names(docstring: str) -> Iterator[str]:
    """Yield the names in the section `Args:`."""
    _, found, section = docstring.partition("Args:\n")
    indent = None
    for line in section.splitlines() if found else ():
        if not line.strip():
            return
        match = _NAME.match(line)
        if match and indent in (None, match[1]):
            indent = match[1]
            yield match[2]


def wrong_names(source: str) -> list[str]:
    """Return the documented names that are no parameters, with their function or class."""
    nodes = [each for each in ast.walk(ast.parse(source)) if isinstance(each, Function | ast.ClassDef)]
    return [
        f"{node.name}: {name}"
        for node in nodes
        for name in documented_names(ast.get_docstring(node, clean=False) or "")
        if name not in known_names(node)
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_documented_parameter_exists(folder: str) -> None:
    files = (ROOT / folder).rglob("*.py")
    assert {str(file): wrong for file in files if (wrong := wrong_names(file.read_text()))} == {}


def test_a_renamed_parameter_is_found() -> None:
    source = 'def read(file):\n    """Read.\n\n    Args:\n        path: A file.\n    """\n'
    assert wrong_names(source) == ["read: path"]
    assert wrong_names(source.replace("path", "file")) == []
