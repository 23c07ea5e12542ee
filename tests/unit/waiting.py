"""Waiting for other tasks of the event loop."""

import asyncio
from collections.abc import Callable

SECONDS = 60.0
"""Timeout in seconds: a busy machine can need seconds for work of milliseconds."""


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 -- it is about what others do
            await asyncio.sleep(0.005)
