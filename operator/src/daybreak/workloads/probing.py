"""Models to probe."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Probing:
    """Models to probe."""

    now: tuple[str, ...] = ()
    """Gates of the models to probe now."""
    later: timedelta | None = None
    """Time until the next probe of another model, or None if no model waits for a probe."""
