"""Table of values in the chart's README, with the default and comment of each value in values.yaml."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "daybreak"
BEGIN, END = "<!-- values: made by `make generate` -->", "<!-- end of values -->"


@dataclass(frozen=True)
class Value:
    """Documented value of the chart: dotted name, default and comment."""

    name: str
    default: object
    description: str


def values() -> Iterator[Value]:
    """Yield every value of values.yaml, in file order.

    A key with a comment directly above it is one value, including all nested keys. A mapping without a
    comment is a group. Raises ValueError if a key has no comment and is not a group.
    """
    text = (CHART / "values.yaml").read_text()
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)  # noqa: S101 - values.yaml is a mapping
    yield from _below(root, "", text.splitlines())


def _below(node: yaml.MappingNode, prefix: str, lines: list[str]) -> Iterator[Value]:
    for key, child in node.value:
        name = f"{prefix}{key.value}"
        comment = _comment_above(lines, key.start_mark.line, key.start_mark.column)
        if comment:
            yield Value(name, yaml.safe_load(yaml.serialize(child)), comment)
        elif isinstance(child, yaml.MappingNode) and child.value:
            yield from _below(child, f"{name}.", lines)
        else:
            raise ValueError(f"values.yaml: {name} has no comment")


def _comment_above(lines: list[str], line: int, column: int) -> str:
    marker = " " * column + "#"
    comment: list[str] = []
    while line > 0 and lines[line - 1].startswith(marker):
        line -= 1
        comment.insert(0, lines[line].strip().removeprefix("#").strip())
    return " ".join(comment)


def table() -> str:
    """Return the table of values in Markdown."""
    rows = ["| Value | Default | Effect |", "| --- | --- | --- |"]
    for value in values():
        description = value.description.replace("|", "\\|")
        rows.append(f"| `{value.name}` | `{json.dumps(value.default)}` | {description} |")
    return "\n".join(rows)


def readme_md() -> str:
    """Return the chart's README with the current table."""
    text = (CHART / "README.md").read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"
