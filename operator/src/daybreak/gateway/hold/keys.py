"""API keys: files of mounted Secrets, known to HAProxy by their digests only."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from daybreak.api.common.unstructured import at, mapping, mappings, text

NOBODY = "0" * 64
"""A digest that no key has: a service whose keys cannot be read is closed, not open."""


def references(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Secret and key of each API key of an LLMService."""
    listed = mappings(at(manifest, "spec", "access").get("apiKeys"))
    found = [mapping(item.get("secretRef")) for item in listed]
    return [(text(reference.get("name")), text(reference.get("key"))) for reference in found]


class KeyFiles:
    """Reads the keys below a folder that has a folder for each Secret, as the kubelet mounts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def digests(self, manifest: Mapping[str, Any]) -> tuple[str, ...]:
        """SHA-256 digests of an LLMService's keys, in hexadecimal; none: it is open to all."""
        return tuple(sorted({self._digest(*reference) for reference in references(manifest)}))

    def _digest(self, secret: str, key: str) -> str:
        if not secret or not key or "/" in secret + key or secret in (".", ".."):
            return NOBODY
        try:
            value = (self._folder / secret / key).read_bytes().strip()
        except OSError:
            return NOBODY
        return hashlib.sha256(value).hexdigest() if value else NOBODY
