"""Splitting of router configuration into commands that fit HAProxy's admin socket."""

MOST_BYTES = 16 * 2**10
"""Maximum bytes of text in one command. HAProxy's buffer is twice as large."""


def commands(name: str, text: str) -> list[str]:
    """Return the commands that send a text without spaces, which takes effect with the last one.

    Args:
        name: Name of the command: `router NAME AT LAST PIECE`, with pieces from 0 to the last one.
        text: Text of any length; `-` means none.
    """
    pieces = [text[at : at + MOST_BYTES] for at in range(0, len(text), MOST_BYTES)] or ["-"]
    return [f"router {name} {at} {len(pieces) - 1} {piece}" for at, piece in enumerate(pieces)]
