"""The end of a connection."""

import asyncio
from contextlib import suppress

_CLOSING: set[asyncio.Task[None]] = set()
"""asyncio keeps only weak references to tasks."""


def close_connection(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and take the error that a failed write left on it.

    The code that wrote or read has received that error already. asyncio keeps a second copy for
    `wait_closed`. It logs that copy as an error of the program if the garbage collector finds it before the
    connection.
    """
    writer.close()
    task = asyncio.get_running_loop().create_task(_wait_closed(writer))
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)


async def _wait_closed(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await writer.wait_closed()
