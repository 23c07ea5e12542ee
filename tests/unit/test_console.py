"""Comparison of the outputs on a page with the printed text."""

import pytest

from story.objects.console import blocks, unlike


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        ("a  1\nmore\nb 2\n", None),
        ("a 1\nb 3\n", "b 2"),
        ("b 2\na 1\n", "b 2"),
        ("", "a …"),
    ],
    ids=["all", "other value", "other order", "nothing"],
)
def test_outputs_are_compared_line_by_line(printed: str, line: str | None) -> None:
    assert unlike("a …\nb 2\n", printed) == line


def test_page_is_split_into_commands_and_outputs() -> None:
    page = "Text\n\n```bash\na\n```\n\n```bash\nb\nc\n```\n\n```text\n1\n```\n\n```yaml\nd: 1\n```\n"
    assert blocks(page) == (["a\n", "b\nc\n"], ["", "1\n"])
