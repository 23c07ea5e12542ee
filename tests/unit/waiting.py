"""Waiting for what others do in the same loop."""

import asyncio
from collections.abc import Callable

SECONDS = 60.0
"""A busy machine needs seconds for what takes milliseconds."""


async def until(condition: Callable[[], object]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 -- it is about what others do
            await asyncio.sleep(0.005)
