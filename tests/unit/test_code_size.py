"""Size limits of the code: 400 lines for a Python file and 60 lines for a function."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cluster import paths

FILE_LINES = 400
FUNCTION_LINES = 60


def long_functions(source: str) -> Iterator[str]:
    """Yield the functions that are too long, with their number of lines without decorators."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{node.name} ({lines} lines)"


def sources() -> list[Path]:
    """Return the project's Python files, including files that are not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"],  # noqa: S607
        cwd=paths.REPOSITORY,
        capture_output=True,
        check=True,
    ).stdout
    files = {paths.REPOSITORY / name.decode() for name in listed.split(b"\0") if name}
    return sorted(file for file in files if file.is_file())


def test_files_and_functions_stay_short() -> None:
    files = sources()
    assert Path(__file__) in files
    found = []
    for file in files:
        name, source = file.relative_to(paths.REPOSITORY).as_posix(), file.read_text()
        lines = len(source.splitlines())
        if lines > FILE_LINES:
            found.append(f"{name} ({lines} lines)")
        found += [f"{name}: {function}" for function in long_functions(source)]
    assert not found, "split these by subject"


def test_long_function_is_found() -> None:
    body = "    pass\n" * FUNCTION_LINES
    assert list(long_functions(f"@cache\nasync def long():\n{body}")) == [
        f"long ({FUNCTION_LINES + 1} lines)"
    ]
    method = body.replace("    ", " " * 8)
    assert list(long_functions(f"class Kind:\n    def method(self):\n{method}"))
    assert list(long_functions("def short():\n" + "    pass\n" * (FUNCTION_LINES - 1))) == []
