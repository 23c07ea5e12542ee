"""A volume and its mount."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """A volume and where the Ray container sees it."""

    volume: dict[str, Any]
    mount: dict[str, Any]
