"""API keys: files of mounted Secrets, known to HAProxy by their digests only."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from daybreak.api.common.unstructured import at, mapping, mappings, text

NOBODY = "0" * 64
"""A digest that no key has: a service whose keys cannot be read is closed, not open."""

_DIGEST = re.compile("[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class ApiKey:
    """An API key as HAProxy knows it. Raises ValueError where the digest is none."""

    name: str
    """Whose it is: told to models and counted by, never a secret."""
    digest: str
    """SHA-256 of the key, in hexadecimal; NOBODY: it cannot be read."""

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"the key {self.name} is told by what is not a SHA-256 digest in hexadecimal")

    @property
    def word(self) -> str:
        """As `daybreak set` takes it, among others separated by commas."""
        return f"{quote(self.name, safe='')}:{self.digest.lower()}"


class KeyFiles:
    """Reads the keys below a folder that has a folder for each Secret, as the kubelet mounts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keys(self, manifest: Mapping[str, Any]) -> tuple[ApiKey, ...]:
        """An LLMService's keys; none: it is open to all. Of two that are the same the first one is taken."""
        found: dict[str, ApiKey] = {}
        for item in mappings(at(manifest, "spec", "access").get("apiKeys")):
            reference = mapping(item.get("secretRef"))
            secret, key = text(reference.get("name")), text(reference.get("key"))
            digest = self._digest(secret, key)
            found.setdefault(digest, ApiKey(text(item.get("name")) or f"{secret}/{key}", digest))
        return tuple(found.values())

    def _digest(self, secret: str, key: str) -> str:
        if not secret or not key or "/" in secret + key or secret in (".", ".."):
            return NOBODY
        try:
            value = (self._folder / secret / key).read_bytes().strip()
        except OSError:
            return NOBODY
        return hashlib.sha256(value).hexdigest() if value else NOBODY
