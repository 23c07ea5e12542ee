"""How property tests run: the same examples each time, and no clock, for the machine may be busy."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same", deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore", parent=settings.get_profile("same"), derandomize=False, max_examples=1000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
