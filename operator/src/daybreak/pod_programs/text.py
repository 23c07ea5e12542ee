"""Conversion of a program with several modules into one text for `python3 -c`."""

import ast
from functools import cache
from importlib import import_module, resources


@cache
def program(name: str) -> str:
    """Return the text of a program: its modules in the order of `MODULES`.

    The modules become one module, so their imports of each other are removed. Each import must use a module's
    own name, and a name must have only one meaning in the whole program.
    """
    package = f"{__package__}.{name}"
    found = import_module(package)
    parts = [f'"""{found.__doc__}"""\n']
    parts += [_without_own_imports(_source(package, each), package) for each in found.MODULES]
    return "\n\n".join(parts)


def _source(package: str, module: str) -> str:
    return resources.files(package).joinpath(f"{module}.py").read_text("utf-8")


def _without_own_imports(source: str, package: str) -> str:
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
    return "".join(lines)
