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


def test_fill_is_the_only_pod_program() -> None:
    assert PROGRAMS == ["fill"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_lists_every_module_in_its_folder(name: str) -> None:
    there = {
        each.name for each in resources.files(f"{PACKAGE}.{name}").iterdir() if each.name.endswith(".py")
    }
    assert there == {"__init__.py", *(f"{each}.py" for each in parsed(name))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_top_level_names_are_unique_across_modules_of_a_program(name: str) -> None:
    counted = Counter(each for module in parsed(name).values() for each in defined(module))
    assert [each for each, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_own_imports_are_top_level_unrenamed_and_from_earlier_modules(name: str) -> None:
    before: set[str] = set()
    for module in parsed(name).values():
        for node in own_imports(name, module):
            assert node in module.body, "what is imported in a function would be looked for in the pod"
            assert all(each.asname is None for each in node.names)
            assert {each.name for each in node.names} <= before
        before |= defined(module)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_text_has_no_own_imports_and_keeps_all_definitions(name: str) -> None:
    text = program(name)
    assert own_imports(name, ast.parse(text)) == []
    assert f"import {PACKAGE}" not in text
    assert defined(ast.parse(text)) == {each for module in parsed(name).values() for each in defined(module)}
