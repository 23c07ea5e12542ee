"""A clock that the test sets."""


class Clock:
    """Seconds on the clock that replaces `time.monotonic`."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now
