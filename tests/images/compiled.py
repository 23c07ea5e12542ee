"""Lock of images/ray that the last CUDA tests compiled with."""

import hashlib

from cluster import paths

LOCK = paths.REPOSITORY / "images" / "ray" / "requirements.txt"
RECORD = paths.REPOSITORY / "tests" / "images" / "compiled.sha256"


def current() -> str:
    """Return the hash of the lock as it is."""
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def write() -> None:
    """Record that the tests have passed with the lock as it is."""
    RECORD.write_text(f"{current()}\n")
