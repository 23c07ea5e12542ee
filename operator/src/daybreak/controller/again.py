"""Requeue delays of objects without a change, and retries after a lost race."""

from collections.abc import Awaitable, Callable, Sized
from datetime import timedelta

from daybreak.kube.writing.apply import Occupied
from daybreak.manifests.keys import Key

SOON_SECONDS = 2.0
"""Requeue delay in seconds for states that resolve by themselves: a predecessor's objects in deletion, or a
lost race."""
FOREIGN_SECONDS = 15.0
"""Interval in seconds between checks whether a name is still taken: objects without Daybreak's labels are not
watched."""
REFUSED_SECONDS = 60.0
"""Delay in seconds before a retry after the API server has rejected a request."""


class Again:
    """Requeue delays that one reconcile collects; the shortest applies."""

    def __init__(self) -> None:
        self._pauses: list[float] = []

    def after(self, *seconds: float) -> None:
        """Requeue after these delays in seconds."""
        self._pauses += seconds

    def at_once(self) -> None:
        """Requeue immediately: the next reconcile applies the status that was just written."""
        self._pauses.append(0.0)

    def within(self, pause: timedelta | None) -> None:
        """Requeue after this pause; None adds no requeue."""
        if pause is not None:
            self._pauses.append(pause.total_seconds())

    @property
    def seconds(self) -> float | None:
        """Delay in seconds until the next reconcile, or None if only a change triggers one."""
        return min(self._pauses, default=None)


async def retry_conflicts(
    once: Callable[[Key], Awaitable[float | None]], key: Key, owned: Sized
) -> float | None:
    """Reconcile an object, and retry immediately if another owner took an object name in the meantime.

    The next attempt detects that owner.

    Args:
        once: The reconcile.
        key: The object to reconcile.
        owned: Kinds of objects that the reconcile creates; each may lose one such race.
    """
    for _ in range(len(owned)):
        try:
            return await once(key)
        except Occupied:
            continue
    return SOON_SECONDS
