"""Batching of the rows of several requests in one call of predict, by Serve's own `serve.batch`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray import serve

from daybreak_runtime.models.args import Batch
from daybreak_runtime.v2.problem import BadInput

Columns = Mapping[str, Any]
"""Arguments of predict: arrays and lists, all of one length."""


@dataclass(frozen=True)
class _Item:
    columns: Columns
    rows: int


class Batcher:
    """Batcher of requests with the same arguments except for their rows.

    Args:
        predict: Function that takes the arguments of all requests, and returns the same number of rows.
        batch: Number of rows, and the wait of the first request.
    """

    def __init__(self, predict: Callable[..., Awaitable[Any]], batch: Batch) -> None:
        self._predict = predict
        self._most = batch.maxSize

        # Serve keeps the queue on the function, so each version needs its own function.
        @serve.batch(  # type: ignore[untyped-decorator,unused-ignore]
            max_batch_size=batch.maxSize, batch_wait_timeout_s=batch.wait, batch_size_fn=_rows
        )
        async def together(items: list[_Item]) -> list[Any]:
            return await self._together(items)

        self._queue: Callable[[_Item], Awaitable[Any]] = together

    async def predict(self, columns: Columns) -> Any:
        """Return the result of predict for these rows. Raises BadInput if arguments differ in length."""
        item = _Item(columns, _length(columns))
        if item.rows >= self._most or item.rows == 0:
            # Large enough alone; Serve rejects a request that is larger than its batch.
            return await self._predict(**columns)
        found = await self._queue(item)
        if isinstance(found, Exception):
            raise found
        return found

    async def _together(self, items: list[_Item]) -> list[Any]:
        """Return the result of each request: its rows, or the exception that it alone causes."""
        found: dict[int, Any] = {}
        groups: dict[Any, list[int]] = {}
        for place, item in enumerate(items):
            groups.setdefault(_kind(item.columns), []).append(place)
        for places in groups.values():
            found |= dict(zip(places, await self._group([items[place] for place in places]), strict=True))
        return [found[place] for place in range(len(items))]

    async def _group(self, items: Sequence[_Item]) -> list[Any]:
        try:
            joined = {name: _join([item.columns[name] for item in items]) for name in items[0].columns}
            given = await self._predict(**joined)
            return _split(given, [item.rows for item in items])
        except Exception as error:  # noqa: BLE001 -- raised for the affected requests
            if len(items) == 1:
                return [error]
        # One request must not fail the others of its batch, so each runs alone to identify it.
        return [(await self._group([item]))[0] for item in items]


def _rows(items: Sequence[_Item]) -> int:
    return sum(item.rows for item in items)


def _length(columns: Columns) -> int:
    lengths = {name: len(value) for name, value in columns.items() if isinstance(value, list | np.ndarray)}
    if len(lengths) != len(columns):
        others = ", ".join(name for name in columns if name not in lengths)
        raise TypeError(f"with batching, predict takes arrays and lists: {others} is none")
    if len(set(lengths.values())) > 1:
        raise BadInput(f"inputs differ in their rows: {lengths}")
    return next(iter(lengths.values()), 0)


def _kind(columns: Columns) -> tuple[Any, ...]:
    """Return the properties that must be equal so that arrays can be joined."""
    return tuple(
        (name, value.dtype.str, value.shape[1:]) if isinstance(value, np.ndarray) else (name, list)
        for name, value in sorted(columns.items())
    )


def _join(values: Sequence[Any]) -> Any:
    if isinstance(values[0], np.ndarray):
        return values[0] if len(values) == 1 else np.concatenate(values)
    return [each for value in values for each in value]


def _split(given: Any, rows: Sequence[int]) -> list[Any]:
    if isinstance(given, dict):
        parts = {name: _split(value, rows) for name, value in given.items()}
        return [{name: parts[name][place] for name in given} for place in range(len(rows))]
    if len(given) != sum(rows):
        raise ValueError(f"predict gave {len(given)} rows for {sum(rows)}")
    found, start = [], 0
    for count in rows:
        found.append(given[start : start + count])
        start += count
    return found
