"""Decoding of the images of rows next to an engine, in bounded memory.

A file of 10 KB may be an image of 80 million pixels. If every row in an engine had such an image, the pod
would run out of memory, again at each attempt.
"""

import asyncio
import io
import os
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from daybreak_runtime.batch.rows import images
from daybreak_runtime.batch.rows.row_error import RowError

PIXEL_BYTES = 4
"""Bytes of a pixel while it is decoded."""
SHARE = 8
"""Divisor of the memory that images may use; the engine's own copies use the same amount again."""
CGROUP = Path("/sys/fs/cgroup")
Row = TypeVar("Row")
Answer = TypeVar("Answer")
_ADDRESS = re.compile(r" <_io\.BytesIO object at 0x[0-9a-f]+>")


class Room:
    """Memory that rows reserve and release, first come, first served.

    Args:
        size: Bytes in total. A larger reservation gets all of them.
    """

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        # A waiting row holds the lock, so that small reservations do not overtake a large one forever.
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def take(self, need: int) -> AsyncIterator[None]:
        """Wait for `need` bytes, and reserve them until the end of the block."""
        need = min(need, self._size)
        async with self._turn:
            while self._free < need:
                self._freed.clear()
                await self._freed.wait()
            self._free -= need
        try:
            yield
        finally:
            self._free += need
            self._freed.set()


def room_for_images(cgroup: Path = CGROUP) -> int:
    """Return the bytes that images may use together: a part of the memory of the container or the machine."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = (cgroup / name).read_text().strip()
        except OSError:
            continue
        if limit.isdecimal():
            return min(int(limit), machine) // SHARE
    return machine // SHARE


@asynccontextmanager
async def decoded(
    urls: Sequence[str], load: Callable[[bytes], Any], room: Room
) -> AsyncIterator[Sequence[Any]]:
    """Yield the decoded images of a row, which keep their memory until the end of the block. Raises RowError.

    Args:
        urls: Images, as `data:` URLs.
        load: Function that decodes a file. It runs in threads, so that the engine's answers need not wait.
        room: Memory of all rows.
    """
    files = [images.content(url) for url in urls]
    need = 0
    for number, file in enumerate(files, 1):
        need += await asyncio.to_thread(_decode, _size, file, number, len(files))
    async with room.take(need):
        yield [
            await asyncio.to_thread(_decode, load, file, number, len(files))
            for number, file in enumerate(files, 1)
        ]


def _decode(what: Callable[[bytes], Any], file: bytes, number: int, count: int) -> Any:
    """Call a function, and raise an error that names the image. Raises RowError."""
    try:
        return what(file)
    except Exception as error:
        which = f"image {number} of {count}" if count > 1 else "the image"
        message = _ADDRESS.sub("", str(error)) or type(error).__name__
        raise RowError(f"{which} cannot be read: {message}") from error


def _size(file: bytes) -> int:
    """Return the bytes of a decoded image, from its header."""
    from PIL import Image

    with Image.open(io.BytesIO(file)) as image:
        return image.width * image.height * PIXEL_BYTES


def explained(
    ask: Callable[[Row], Coroutine[Any, Any, Answer]],
) -> Callable[[Row], Coroutine[Any, Any, Answer]]:
    """Wrap an engine call so that an error without a text reports its cause.

    vLLM's own error, for any failure of a model's processor with an image, has no text. The errors between
    repeat all of their input, so the first cause is reported.
    """

    async def requested(row: Row) -> Answer:
        try:
            return await ask(row)
        except Exception as error:
            cause = error.__cause__
            if str(error) or cause is None:
                raise
            while cause.__cause__ is not None:
                cause = cause.__cause__
            raise type(error)(f"{type(cause).__name__}: {cause}") from cause

    return requested
