"""Rows on the head's disk, in blocks: Ray Data reads them at any position, in any order and repeatedly.

Each process of a batch stages them again, from the same input with the same numbers.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from daybreak_runtime.batch.output import Answer
from daybreak_runtime.batch.rows.images import plain
from daybreak_runtime.batch.rows.reading import Row

FILE_BYTES = 256 * 2**20
"""Size in bytes from which on a new file is begun."""


@dataclass(frozen=True)
class Block:
    """Block of rows, one JSON object in each line."""

    path: str
    offset: int
    length: int
    rows: int

    def lines(self) -> list[str]:
        """Return the lines of the rows: `id` and `columns`."""
        with Path(self.path).open("rb") as file:
            file.seek(self.offset)
            return file.read(self.length).decode().splitlines()


@dataclass(frozen=True)
class Staged:
    """Staged rows, and rows that cannot be read."""

    blocks: list[Block]
    broken: list[Answer]
    """Rows that cannot be read."""
    total: int
    """Number of rows of the input."""


def stage(rows: Iterable[Row], done: Collection[int], folder: Path, block_rows: int) -> Staged:
    """Stage the rows that are not done."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks: list[Block] = []
    broken: list[Answer] = []
    lines: list[bytes] = []
    total, number, offset = 0, 0, 0
    file = (folder / "rows-0.jsonl").open("wb")
    try:

        def lay() -> None:
            nonlocal file, number, offset
            if not lines:
                return
            content = b"".join(lines)
            file.write(content)
            blocks.append(Block(file.name, offset, len(content), len(lines)))
            offset += len(content)
            lines.clear()
            if offset > FILE_BYTES:
                file.close()
                number, offset = number + 1, 0
                file = (folder / f"rows-{number}.jsonl").open("wb")

        for row in rows:
            total += 1
            if row.id in done:
                continue
            if row.error:
                broken.append(Answer(row.id, row.columns, error=row.error))
                continue
            # A line ends at \n only: json.dumps writes every other break as an escape with ensure_ascii.
            lines.append(json.dumps({"id": row.id, "columns": row.columns}, default=plain).encode() + b"\n")
            if len(lines) >= block_rows:
                lay()
        lay()
    finally:
        file.close()
    return Staged(blocks, broken, total)
