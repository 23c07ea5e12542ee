"""Decoding the images of rows beside an engine, in memory that is bounded.

A file of 10 KB may be a picture of 80 million pixels. As many rows as an engine has in it, each with such a
one, would end the pod, again at each attempt.
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
"""What a pixel takes while it is decoded."""
SHARE = 8
"""The part of the memory, as a divisor, that images may take; the engine's own copies take as much again."""
CGROUP = Path("/sys/fs/cgroup")
Row = TypeVar("Row")
Answer = TypeVar("Answer")
_ADDRESS = re.compile(r" <_io\.BytesIO object at 0x[0-9a-f]+>")


class Room:
    """Memory that rows take and give back, first come, first served.

    Args:
        size: Bytes in all. Who needs more gets all of them.
    """

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        # Whoever waits for room holds the turn: a large one is not passed by small ones for ever.
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def take(self, need: int) -> AsyncIterator[None]:
        """Wait for so many bytes, and keep them to the end of the block."""
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
    """Bytes that images may take at a time: a part of what the container, or the machine, has."""
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
    """The images of a row, which keep their room to the end of the block. Raises RowError.

    Args:
        urls: The images, as `data:` URLs.
        load: Makes an image of a file; called in threads, so that the engine's answers need not wait.
        room: Memory of all rows.
    """
    files = [images.content(url) for url in urls]
    need = 0
    for number, file in enumerate(files, 1):
        need += await asyncio.to_thread(_told, _size, file, number, len(files))
    async with room.take(need):
        yield [
            await asyncio.to_thread(_told, load, file, number, len(files))
            for number, file in enumerate(files, 1)
        ]


def _told(what: Callable[[bytes], Any], file: bytes, number: int, count: int) -> Any:
    """Whatever is wrong with an image, and which it is. Raises RowError."""
    try:
        return what(file)
    except Exception as error:
        which = f"image {number} of {count}" if count > 1 else "the image"
        said = _ADDRESS.sub("", str(error)) or type(error).__name__
        raise RowError(f"{which} cannot be read: {said}") from error


def _size(file: bytes) -> int:
    """Bytes of an image when it is decoded, by its head."""
    from PIL import Image

    with Image.open(io.BytesIO(file)) as image:
        return image.width * image.height * PIXEL_BYTES


def explained(
    ask: Callable[[Row], Coroutine[Any, Any, Answer]],
) -> Callable[[Row], Coroutine[Any, Any, Answer]]:
    """What asks an engine, so that an error without words says what it came from.

    vLLM's own, for whatever a model's processor says of an image, has none. What lies between repeats all
    that it was given, so the first cause is told.
    """

    async def asked(row: Row) -> Answer:
        try:
            return await ask(row)
        except Exception as error:
            cause = error.__cause__
            if str(error) or cause is None:
                raise
            while cause.__cause__ is not None:
                cause = cause.__cause__
            raise type(error)(f"{type(cause).__name__}: {cause}") from cause

    return asked
