"""Volume with its mount."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """A volume and its mount in the Ray container."""

    volume: dict[str, Any]
    mount: dict[str, Any]
