"""What the HAProxies of a gateway believe of each other's requests."""

import secrets
from pathlib import Path

ATTEMPTS = 60
"""Wrong keys that are answered 401 in a minute for one address of clients. Above that it is 429 for every key
that has not been used from there within the last hour."""


def next_socket(folder: Path) -> Path:
    """Where the HAProxy that holds sends a route's request that its backend did not take."""
    return folder / "next.sock"


def token(folder: Path) -> str:
    """What a request from the router bears, and no client knows. All have one private folder."""
    file = folder / "token"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(16))
    return file.read_text()
