"""What the router is told, in commands that HAProxy's admin socket takes whole."""

MOST_BYTES = 16 * 2**10
"""Of a text in one command. HAProxy reads what its buffer takes, twice as much."""


def commands(name: str, text: str) -> list[str]:
    """The commands that say a text without spaces, which holds from the last one on.

    Args:
        name: Of the command: `router NAME AT LAST PIECE`, with pieces from 0 to the last one.
        text: Any length; `-` stands for none.
    """
    pieces = [text[at : at + MOST_BYTES] for at in range(0, len(text), MOST_BYTES)] or ["-"]
    return [f"router {name} {at} {len(pieces) - 1} {piece}" for at, piece in enumerate(pieces)]
