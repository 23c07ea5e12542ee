"""Which models are to be asked for an answer."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Asking:
    """Which models are to be asked for an answer."""

    now: tuple[str, ...] = ()
    """Their gates."""
    later: timedelta | None = None
    """How long until another one may be asked; None: none waits."""
