"""Commands of a page, and their outputs."""

import re

BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> tuple[list[str], list[str]]:
    """Return the commands of a page, and the output after each of them, empty if the page shows none."""
    commands: list[str] = []
    outputs: list[str] = []
    for language, text in BLOCK.findall(page):
        if language == "bash":
            commands.append(text)
            outputs.append("")
        else:
            outputs[-1] = text
    return commands, outputs


def unlike(expected: str, printed: str) -> str | None:
    """Return the first expected line that is not printed after the previous one, or None.

    `…` matches any text, and any space matches any other space.
    """
    rest = [" ".join(line.split()) for line in printed.splitlines()]
    for line in expected.splitlines():
        pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("…"))
        place = next((at for at, found in enumerate(rest) if re.fullmatch(pattern, found)), None)
        if place is None:
            return line
        rest = rest[place + 1 :]
    return None
