"""When an object is looked at again although nothing has happened, and what a lost race means."""

from collections.abc import Awaitable, Callable, Sized
from datetime import timedelta

from daybreak.kube.writing.apply import Occupied
from daybreak.manifests.keys import Key

SOON_SECONDS = 2.0
"""When to look again at what resolves by itself: a predecessor's objects on their way out, a lost race."""
FOREIGN_SECONDS = 15.0
"""When to look again whether a name is still taken: objects without our labels are not watched."""
REFUSED_SECONDS = 60.0
"""When to try again what the API server has refused."""


class Again:
    """Gathers, over one reconcile, what asks for another one; the earliest counts."""

    def __init__(self) -> None:
        self._pauses: list[float] = []

    def after(self, *seconds: float) -> None:
        """In so many seconds."""
        self._pauses += seconds

    def at_once(self) -> None:
        """At once: what stands in the status now is carried out by the next reconcile."""
        self._pauses.append(0.0)

    def within(self, pause: timedelta | None) -> None:
        """After that pause; None: not for this."""
        if pause is not None:
            self._pauses.append(pause.total_seconds())

    @property
    def seconds(self) -> float | None:
        """When to look again; None: at a change."""
        return min(self._pauses, default=None)


async def past_races(once: Callable[[Key], Awaitable[float | None]], key: Key, owned: Sized) -> float | None:
    """One reconcile, begun anew at once where a name was taken meanwhile: the next look sees by whom.

    Args:
        once: The reconcile.
        key: Of which object.
        owned: The kinds of objects that it makes: each may have lost such a race.
    """
    for _ in range(len(owned)):
        try:
            return await once(key)
        except Occupied:
            continue
    return SOON_SECONDS
