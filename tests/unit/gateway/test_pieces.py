"""Commands to the router, in pieces."""

import pytest

from daybreak.gateway.router.pieces import MOST_BYTES, commands


def test_empty_text_is_sent_as_one_command() -> None:
    assert commands("share", "") == ["router share 0 0 -"]


@pytest.mark.parametrize("length", [1, MOST_BYTES, MOST_BYTES + 1, 5 * MOST_BYTES + 7])
def test_long_text_is_split_without_loss(length: int) -> None:
    text = "".join(chr(ord("a") + at % 26) for at in range(length))
    found = [command.split(" ") for command in commands("set", text)]
    last = str(len(found) - 1)
    assert [words[:4] for words in found] == [["router", "set", str(at), last] for at in range(len(found))]
    assert "".join(words[4] for words in found) == text
    assert max(len(words[4]) for words in found) <= MOST_BYTES
