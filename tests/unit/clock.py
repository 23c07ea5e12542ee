"""A clock that a test turns on."""


class Clock:
    """Seconds, as `time.monotonic` tells them."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now
