"""The modules of a program for pods, joined into one text."""

import ast
from collections import Counter
from importlib import import_module, resources

import pytest

from daybreak.pod_programs.text import program

PACKAGE = "daybreak.pod_programs"
PROGRAMS = sorted(
    each.name for each in resources.files(PACKAGE).iterdir() if each.joinpath("__init__.py").is_file()
)


def parsed(name: str) -> dict[str, ast.Module]:
    """Return the parsed modules of a program."""
    package = f"{PACKAGE}.{name}"
    folder = resources.files(package)
    return {
        each: ast.parse(folder.joinpath(f"{each}.py").read_text("utf-8"))
        for each in import_module(package).MODULES
    }


def defined(module: ast.Module) -> set[str]:
    """Return the names that a module defines at its top level, without its imports."""
    found = set()
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def own_imports(name: str, module: ast.Module) -> list[ast.ImportFrom]:
    """Return the imports of a module from its own program."""
    froms = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom)]
    return [node for node in froms if (node.module or "").startswith(f"{PACKAGE}.{name}")]


def test_there_are_programs() -> None:
    assert PROGRAMS == ["fill"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_module_is_left_out(name: str) -> None:
    there = {
        each.name for each in resources.files(f"{PACKAGE}.{name}").iterdir() if each.name.endswith(".py")
    }
    assert there == {"__init__.py", *(f"{each}.py" for each in parsed(name))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_name_stands_for_one_thing_in_the_whole_program(name: str) -> None:
    counted = Counter(each for module in parsed(name).values() for each in defined(module))
    assert [each for each, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_modules_import_of_each_other_comes_before_and_by_its_own_name(name: str) -> None:
    before: set[str] = set()
    for module in parsed(name).values():
        for node in own_imports(name, module):
            assert node in module.body, "what is imported in a function would be looked for in the pod"
            assert all(each.asname is None for each in node.names)
            assert {each.name for each in node.names} <= before
        before |= defined(module)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_imports_nothing_of_daybreak(name: str) -> None:
    text = program(name)
    assert own_imports(name, ast.parse(text)) == []
    assert f"import {PACKAGE}" not in text
    assert defined(ast.parse(text)) == {each for module in parsed(name).values() for each in defined(module)}
