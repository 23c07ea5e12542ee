"""Docstrings of constants and enum members, parsed from the source because Python discards them."""

import ast
import inspect
from collections.abc import Sequence
from types import ModuleType


def of_constants(module: ModuleType) -> dict[str, str]:
    """Return the docstring of each constant of a module, in source order; empty if it has none."""
    return _below_assignments(ast.parse(inspect.getsource(module)).body)


def of_members(enumeration: type) -> dict[str, str]:
    """Return the docstring of each member of an enum, in source order."""
    parsed = ast.parse(inspect.getsource(enumeration)).body[0]
    assert isinstance(parsed, ast.ClassDef)  # noqa: S101 - the source is a class definition
    return _below_assignments(parsed.body)


def _below_assignments(body: Sequence[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    last = ""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                found[name], last = "", name
            case ast.Expr(value=ast.Constant(value=str(text))) if last:
                found[last], last = " ".join(text.split()), ""
            case _:
                last = ""
    return found
