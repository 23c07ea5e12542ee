"""How long services that take turns wait at the longest, as docs/sleep.md says it."""

from datetime import timedelta

from daybreak.scheduling.claim import LOOK_AGAIN, PATIENCE

HANDOVER = PATIENCE + LOOK_AGAIN + timedelta(seconds=3)
"""What a turn takes beside itself: until the scheduler's word counts that there is no room, and until the
operator looks again; and what the operator, gateways and the scheduler take, with seconds to spare."""


def longest_wait(services: int, accelerators: int, awake: timedelta, stream: timedelta) -> timedelta:
    """The longest wait of one of so many services with a pod each that are always asked.

    Its own last stream, since it holds requests from the end of its turn on; and a turn of each of the
    others, as many at a time as there are accelerators: who has had one holds younger requests than whoever
    has waited meanwhile.

    Args:
        services: How many.
        accelerators: For how many of them at a time.
        awake: The start and `minAwake`, at the longest.
        stream: The longest stream.
    """
    rounds = -(-(services - 1) // accelerators)
    return stream + rounds * (awake + stream + HANDOVER)
