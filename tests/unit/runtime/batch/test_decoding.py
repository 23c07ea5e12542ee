"""Decoding of a row's images: bounded in memory, and each error names the image."""

import asyncio
import base64
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from daybreak_runtime.batch.rows.decoding import PIXEL_BYTES, SHARE, Room, decoded, explained, room_for_images
from daybreak_runtime.batch.rows.row_error import RowError

LARGE = 10 * 2**30


def url(size: tuple[int, int] = (4, 2), end: int | None = None) -> str:
    file = io.BytesIO()
    Image.new("L", size).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()[:end]).decode()}"


def pillow(file: bytes) -> Any:
    """Fake of vLLM's loader, which is only in the images."""
    image = Image.open(io.BytesIO(file))
    image.load()
    return image.size


async def sizes(urls: list[str], load: Callable[[bytes], Any] = pillow, room: int = LARGE) -> Sequence[Any]:
    async with decoded(urls, load, Room(room)) as found:
        return found


def test_decoded_images_keep_their_order() -> None:
    assert asyncio.run(sizes([url((4, 2)), url((3, 3))])) == [(4, 2), (3, 3)]


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ([url(), url(end=45)], r"image 2 of 2 cannot be read: "),
        ([url(end=20)], r"^the image cannot be read: "),
        (["data:image/png;base64," + base64.b64encode(b"words, no picture").decode()], "cannot identify"),
        ([url((20000, 20000))], "400000000 pixels"),
    ],
    ids=["cut", "cut early", "words", "bomb"],
)
def test_unreadable_image_error_names_image_without_memory_address(urls: list[str], words: str) -> None:
    with pytest.raises(RowError, match=words) as caught:
        asyncio.run(sizes(urls))
    assert " at 0x" not in str(caught.value)


def test_decoded_image_reserves_memory_until_its_row_is_answered() -> None:
    """The file of an image is a few KB, and states the size of the decoded image."""
    pixels = 1000 * 1000

    async def beside(more: int) -> tuple[bool, bool]:
        room = Room(2 * pixels * PIXEL_BYTES + 10)
        async with decoded([url((1000, 1000))] * 2, pillow, room):
            other = asyncio.create_task(_once(room, more))
            for _ in range(10):
                await asyncio.sleep(0)
            during = other.done()
        await asyncio.wait_for(other, 10)
        return during, other.done()

    async def _once(room: Room, need: int) -> None:
        async with room.take(need):
            pass

    assert asyncio.run(beside(10)) == (True, True)
    assert asyncio.run(beside(11)) == (False, True)


def test_reservation_larger_than_memory_is_served_in_order_and_alone() -> None:
    order: list[str] = []
    current: set[str] = set()
    beside: dict[str, set[str]] = {}

    async def hold(room: Room, name: str, need: int) -> None:
        async with room.take(need):
            order.append(name)
            current.add(name)
            for each in current:
                beside[each] = beside.get(each, set()) | current - {each}
            for _ in range(10):
                await asyncio.sleep(0)
            current.remove(name)

    async def several() -> None:
        room = Room(10)
        needs = (("a", 6), ("huge", 50), ("b", 1), ("c", 1))
        await asyncio.wait_for(asyncio.gather(*(hold(room, *each) for each in needs)), 10)

    asyncio.run(several())
    assert order == ["a", "huge", "b", "c"]
    assert beside == {"a": set(), "huge": set(), "b": {"c"}, "c": {"b"}}


def test_memory_is_released_after_error_and_cancellation() -> None:
    async def twice() -> Sequence[Any]:
        room = Room(100)
        with pytest.raises(RowError):
            async with decoded([url((5, 5), end=45)], pillow, room):
                raise AssertionError("nothing was decoded")
        waiting = asyncio.create_task(_wait(room))
        async with room.take(100):
            other = asyncio.create_task(_wait(room))
            await asyncio.sleep(0)
            other.cancel()
            await asyncio.sleep(0)
        await asyncio.wait_for(waiting, 10)
        async with decoded([url((5, 5))], pillow, room) as found:
            return found

    async def _wait(room: Room) -> None:
        async with room.take(100):
            pass

    assert asyncio.run(asyncio.wait_for(twice(), 10)) == [(5, 5)]


class Wrapped(Exception):
    """Error like vLLM's EngineGenerateError: without a text."""


def test_error_without_text_reports_its_root_cause() -> None:
    async def ask(row: str) -> str:
        if row == "good":
            return "answer"
        first = ValueError("aspect ratio must be smaller than 200")
        between = ValueError("no luck with <Image at 0x7f00>")
        between.__cause__ = first
        raise Wrapped(*([row] if row else [])) from between

    requested = explained(ask)
    assert asyncio.run(requested("good")) == "answer"
    with pytest.raises(Wrapped, match=r"^ValueError: aspect ratio must be smaller than 200$"):
        asyncio.run(requested(""))
    with pytest.raises(Wrapped, match=r"^own words$"):
        asyncio.run(requested("own words"))


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_image_memory_is_a_share_of_the_container_limit(tmp_path: Path, name: str) -> None:
    machine = room_for_images(tmp_path)
    assert machine > 0
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("1000000\n")
    assert room_for_images(tmp_path) == 1000000 // SHARE
    for unlimited in ("max\n", f"{2**63 - 4096}\n"):
        (tmp_path / name).write_text(unlimited)
        assert room_for_images(tmp_path) == machine
