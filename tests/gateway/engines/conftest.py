"""The real gateway in front of an engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.village import Village, village


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Village]:
    async with village(tmp_path) as made:
        yield made
