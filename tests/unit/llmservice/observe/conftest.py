"""Who is told that a service is to be looked at again."""

import pytest

from daybreak.manifests.keys import Key


@pytest.fixture
def called() -> list[Key]:
    """Services that were to be looked at again."""
    return []
