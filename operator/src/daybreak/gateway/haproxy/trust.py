"""Trust between the HAProxies of a gateway."""

import os
import re
import secrets
from pathlib import Path

ATTEMPTS = 60
"""Maximum number of wrong keys that one client address may send per minute and that are answered 401. Above
it every key is answered 429 that has not been used from there within the last hour."""

_TOKEN = re.compile("[0-9a-f]{32}")


def next_socket(folder: Path) -> Path:
    """Return the socket for requests of a route that their backend did not accept."""
    return folder / "next.sock"


def token(folder: Path) -> str:
    """Return the secret in requests from the router, which no client knows. All HAProxies share a folder."""
    file = folder / "token"
    if (found := _read(file)) and _TOKEN.fullmatch(found):
        return found
    file.unlink(missing_ok=True)
    file.touch(mode=0o640)
    file.write_text(made := secrets.token_hex(16))
    return made


def _read(file: Path) -> str:
    """Return the content of a file, or nothing if it is missing.

    Links are not followed: an attacker in HAProxy could create one, and would read in HAProxy's configuration
    what only the agent may read.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return ""
    with open(descriptor) as opened:
        return opened.read(64)
