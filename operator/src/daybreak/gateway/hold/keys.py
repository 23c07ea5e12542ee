"""API keys from the files of mounted Secrets. HAProxy knows only their digests."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from daybreak.api.common.unstructured import at, mapping, mappings, parse_time, text, whole

NOBODY = "0" * 64
"""Digest that matches no key. A service whose keys cannot be read is closed, not open."""

_DIGEST = re.compile("[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class ApiKey:
    """API key as HAProxy knows it. Raises ValueError if the digest is invalid."""

    name: str
    """Name of the key: sent to models and used for counts, never a secret."""
    digest: str
    """SHA-256 of the key, in hexadecimal; NOBODY if the key cannot be read."""
    expires: int = 0
    """Expiry in seconds since 1970; 0: never."""
    models: tuple[str, ...] = ()
    """Models that the key may use; none: all."""
    per_minute: int = 0
    """Maximum number of requests per minute; 0 is unlimited."""
    in_flight: int = 0
    """Maximum number of concurrent requests in the gateway; 0 is unlimited."""
    held: int | None = None
    """Maximum number of held requests of a model; None: the key's fair share."""

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"the digest of key {self.name} is not a SHA-256 digest in hexadecimal")

    @property
    def word(self) -> str:
        """Item of `keys` in the command `daybreak set`, where commas separate items."""
        models = "+".join(quote(model, safe="") for model in self.models)
        held = "" if self.held is None else self.held
        name, digest = quote(self.name, safe=""), self.digest.lower()
        return f"{name}:{digest}:{self.expires}:{self.per_minute}:{self.in_flight}:{held}:{models}"

    def may_ask(self, model: str, now: float) -> bool:
        """Return True if the key may use a model."""
        return (not self.expires or now < self.expires) and (not self.models or model in self.models)


def _api_key(item: Mapping[str, Any], name: str, digest: str) -> ApiKey:
    """Return a key from its entry in the spec.

    An unreadable limit is unlimited; an unreadable time has expired.
    """
    limits, until = at(item, "limits"), text(item.get("expires"))
    moment = parse_time(until) if until else None
    models, held = item.get("models"), limits.get("maxHeld")
    return ApiKey(
        name,
        digest,
        expires=int(moment.timestamp()) if moment else int(bool(until)),
        models=tuple(text(each) for each in models if text(each)) if isinstance(models, list) else (),
        per_minute=whole(limits.get("requestsPerMinute")),
        in_flight=whole(limits.get("maxInFlight")),
        held=held if isinstance(held, int) and not isinstance(held, bool) and held >= 0 else None,
    )


class KeyFiles:
    """Reader of keys in a folder with one folder for each Secret, as the kubelet mounts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keys(self, manifest: Mapping[str, Any]) -> tuple[ApiKey, ...]:
        """Return an LLMService's keys, or none if it is open to all. Of two equal keys the first is used."""
        found: dict[str, ApiKey] = {}
        for item in mappings(at(manifest, "spec", "access").get("apiKeys")):
            reference = mapping(item.get("secretRef"))
            secret, key = text(reference.get("name")), text(reference.get("key"))
            digest = self._digest(secret, key)
            found.setdefault(digest, _api_key(item, text(item.get("name")) or f"{secret}/{key}", digest))
        return tuple(found.values())

    def value(self, secret: str, key: str) -> bytes:
        """Return the value of a Secret's key without surrounding spaces, or nothing if it cannot be read."""
        if not secret or not key or "/" in secret + key or secret in (".", ".."):
            return b""
        try:
            return (self._folder / secret / key).read_bytes().strip()
        except OSError:
            return b""

    def _digest(self, secret: str, key: str) -> str:
        value = self.value(secret, key)
        return hashlib.sha256(value).hexdigest() if value else NOBODY
