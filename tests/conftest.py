"""How property tests run: the same examples each time, and no clock, for the machine may be busy.

Servers that tests share (an API server, Ray) are fixtures of the scope `package`, not `session`: on two cores
what idles in one worker takes time from the tests of the others. For pytest a folder is a package only where
it has an `__init__.py`; without it such a fixture silently lives as long as the session.
"""

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "same", deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore", parent=settings.get_profile("same"), derandomize=False, max_examples=1000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape halves of surrogate pairs in what a test has logged: pytest-xdist cannot send them and ends."""
    report = yield
    report.sections = [
        (name, content.encode(errors="backslashreplace").decode()) for name, content in report.sections
    ]
    return report
