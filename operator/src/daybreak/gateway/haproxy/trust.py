"""What the HAProxies of a gateway believe of each other's requests."""

import os
import re
import secrets
from pathlib import Path

ATTEMPTS = 60
"""Wrong keys that are answered 401 in a minute for one address of clients. Above that it is 429 for every key
that has not been used from there within the last hour."""

_TOKEN = re.compile("[0-9a-f]{32}")


def next_socket(folder: Path) -> Path:
    """Where the HAProxy that holds sends a route's request that its backend did not take."""
    return folder / "next.sock"


def token(folder: Path) -> str:
    """What a request from the router bears, and no client knows. All have one folder."""
    file = folder / "token"
    if (found := _read(file)) and _TOKEN.fullmatch(found):
        return found
    file.unlink(missing_ok=True)
    file.touch(mode=0o640)
    file.write_text(made := secrets.token_hex(16))
    return made


def _read(file: Path) -> str:
    """What stands there; empty where nothing does.

    A link is not followed: whoever has broken into HAProxy could lay one, and would read in HAProxy's
    configuration what only the agent may.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return ""
    with open(descriptor) as opened:
        return opened.read(64)
