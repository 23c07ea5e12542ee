"""How much a property test tries: a fixed part of it in CI, all of it in `make test-long`."""

import os

LONG = bool(os.environ.get("DAYBREAK_LONG_TESTS"))
"""True in `make test-long`."""
_PART = 5
_FEWEST = 20


def examples(count: int) -> int:
    """Return how many examples a property test tries: `count` in the long run, a fifth of them in CI."""
    return count if LONG else min(count, max(_FEWEST, count // _PART))
