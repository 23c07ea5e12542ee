"""API keys: files of mounted Secrets, known to HAProxy by their digests only."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from daybreak.api.common.unstructured import at, mapping, mappings, parse_time, text, whole

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
    expires: int = 0
    """When it opens nothing any more, in seconds since 1970; 0: never."""
    models: tuple[str, ...] = ()
    """Models that it may ask for; none: all."""
    per_minute: int = 0
    """Requests that it may send in a minute; 0: any number."""
    in_flight: int = 0
    """Requests that it may have here at a time; 0: any number."""
    held: int | None = None
    """Requests of a model that it may have held at a time; None: its fair share."""

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"the key {self.name} is told by what is not a SHA-256 digest in hexadecimal")

    @property
    def word(self) -> str:
        """As `daybreak set` takes it, among others separated by commas."""
        models = "+".join(quote(model, safe="") for model in self.models)
        held = "" if self.held is None else self.held
        name, digest = quote(self.name, safe=""), self.digest.lower()
        return f"{name}:{digest}:{self.expires}:{self.per_minute}:{self.in_flight}:{held}:{models}"

    def may_ask(self, model: str, now: float) -> bool:
        """Whether it may ask for a model."""
        return (not self.expires or now < self.expires) and (not self.models or model in self.models)


def _api_key(item: Mapping[str, Any], name: str, digest: str) -> ApiKey:
    """A key as its entry in the spec has it. A limit that cannot be read is none, a time is long past."""
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
            found.setdefault(digest, _api_key(item, text(item.get("name")) or f"{secret}/{key}", digest))
        return tuple(found.values())

    def value(self, secret: str, key: str) -> bytes:
        """What a key of a Secret holds, without spaces around it; empty: it cannot be read."""
        if not secret or not key or "/" in secret + key or secret in (".", ".."):
            return b""
        try:
            return (self._folder / secret / key).read_bytes().strip()
        except OSError:
            return b""

    def _digest(self, secret: str, key: str) -> str:
        value = self.value(secret, key)
        return hashlib.sha256(value).hexdigest() if value else NOBODY
