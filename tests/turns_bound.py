"""How long services that take turns wait at the longest, as docs/sleep.md says it."""

from datetime import timedelta

from daybreak.scheduling.claim import LOOK_AGAIN, PATIENCE

HANDOVER = PATIENCE + LOOK_AGAIN + timedelta(seconds=3)
"""Overhead of a turn: the time until the scheduler's report of missing capacity counts, and until the
operator requeues; and the time of the operator, gateways and the scheduler, with seconds to spare."""


def longest_wait(services: int, accelerators: int, awake: timedelta, stream: timedelta) -> timedelta:
    """Return the longest wait of one of `services` services with a pod each that always receive requests.

    The wait includes the service's last stream, since it holds requests from the end of its turn on. It also
    includes a turn of each of the others, as many at a time as there are accelerators: a service that has
    had one holds younger requests than one that has waited since then.

    Args:
        services: How many.
        accelerators: For how many of them at a time.
        awake: The start and `minAwake`, at the longest.
        stream: The longest stream.
    """
    rounds = -(-(services - 1) // accelerators)
    return stream + rounds * (awake + stream + HANDOVER)
