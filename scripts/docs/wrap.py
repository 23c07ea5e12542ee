"""Line length of the Markdown pages."""

import re
from collections.abc import Iterator

WIDTH = 120
"""Maximum characters of a line of prose.

Tables, code, headings, link targets and dates of decisions are exempt.
"""
_COMMENT = re.compile(r"<!--.*?-->")
_TOKEN = re.compile(r"(?:<!--.*?-->|`[^`]*`|[^\s`]|`)+")
"""A word. Inline code and comments are not split: a marked figure must stay on one line."""
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_EXEMPT = re.compile(r" *(?:\||#|\[[^\]]*\]: |<(?!!--)|Date: )")
_FENCE = re.compile(r" *(```|~~~)")


def visible_length(line: str) -> int:
    """Return the number of characters of a line, without comments, which readers do not see."""
    return len(_COMMENT.sub("", line))


def long_lines(text: str) -> list[int]:
    """Return the numbers of the prose lines that are longer than WIDTH and can be split."""
    return [number for number, line, is_prose in _lines(text) if is_prose and len(_wrapped(line)) > 1]


def wrap_md(text: str) -> str:
    """Return Markdown with each long line of prose split; other lines stay as they are."""
    lines = [part for _, line, is_prose in _lines(text) for part in (_wrapped(line) if is_prose else [line])]
    return "\n".join(lines) + "\n"


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the number and the content of each line, and whether it is prose."""
    fenced, in_list = False, False
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if _FENCE.match(line):
            fenced = not fenced
        in_list = bool(_ITEM.match(line.lstrip())) or (in_list and (not line or line.startswith(" ")))
        indent = len(line) - len(line.lstrip())
        code = fenced or (indent >= 4 and not in_list) or indent >= 6
        yield number, line, not code and not _EXEMPT.match(line)


def _wrapped(line: str) -> list[str]:
    if visible_length(line) <= WIDTH:
        return [line]
    start = line[: len(line) - len(line.lstrip())]
    quote = "> " if line.lstrip().startswith("> ") else ""
    words: list[str] = _TOKEN.findall(line.lstrip().removeprefix(quote))
    item = _ITEM.match(line.lstrip())
    follow = start + (" " * len(item[0]) if item else quote)
    lines = [f"{start}{quote}{words[0]}"]
    for word in words[1:]:
        # A line that begins with these would be a list item, a heading or a quote.
        starts_block = _ITEM.match(f"{word} ") or word in {"+", "#", ">"}
        if visible_length(f"{lines[-1]} {word}") > WIDTH and not starts_block:
            lines.append(f"{follow}{word}")
        else:
            lines[-1] += f" {word}"
    return lines
