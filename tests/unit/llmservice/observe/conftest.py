"""Fixture that records which services are requeued."""

import pytest

from daybreak.manifests.keys import Key


@pytest.fixture
def called() -> list[Key]:
    """Return the list in which requeued services are recorded."""
    return []
