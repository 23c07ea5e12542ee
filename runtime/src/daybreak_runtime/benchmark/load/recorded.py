"""Recorded lengths of requests, from a table with two columns of whole numbers."""

import logging
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from daybreak_runtime.benchmark.order import Load, RecordedFrom
from daybreak_runtime.jobs import tables
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import storage

FIELD = "spec.load.traceFrom"
MOST_PAIRS = 100_000
"""Maximum number of rows; they are sampled from a longer table, because each process of the load receives all
of them."""
MOST_TOKENS = 1_000_000
log = logging.getLogger("daybreak.benchmark")


def with_recorded(load: Load, most: int = MOST_PAIRS) -> Load:
    """Return the load with the lengths of its table. Raises JobProblem.

    Args:
        load: The load; it is unchanged if it names no table.
        most: Number of rows that are sampled from a longer table, by the load's seed.
    """
    source = load.recorded_from
    if source is None:
        return load
    dice = random.Random(f"{load.seed} recorded")  # noqa: S311 -- a load, not a secret
    kept: list[tuple[int, int]] = []
    total = 0
    for pair in _pairs(source):
        total += 1
        # Reservoir sampling: each row has the same probability, whatever the length of the table.
        if len(kept) < most:
            kept.append(pair)
        elif (place := dice.randrange(total)) < most:
            kept[place] = pair
    if not kept:
        raise JobProblem(tables.INPUT_INVALID, f"{FIELD}: {source.shown or source.uri} has no row")
    log.info("%d of %d recorded lengths", len(kept), total)
    return replace(load, recorded=tuple(kept), recorded_from=None)


def _pairs(source: RecordedFrom) -> Iterator[tuple[int, int]]:
    place = storage(source.uri)
    for entry in tables.files(FIELD, source.shown or source.uri, place):
        rows = tables.read(FIELD, source.format, entry, place)
        for number, (columns, error) in enumerate(rows, 1):
            where = f"{FIELD}: row {number} of {entry.name}"
            if error:
                raise JobProblem(tables.INPUT_INVALID, f"{where}: {error}")
            yield (
                _tokens(columns, source.prompt_column, "promptColumn", where),
                _tokens(columns, source.output_column, "outputColumn", where),
            )


def _tokens(columns: Mapping[str, Any], column: str, field: str, where: str) -> int:
    """Return a number of tokens. Raises JobProblem, because a load must consist of recorded values."""
    if column not in columns:
        there = ", ".join(map(str, columns)) or "none"
        message = f"{where} has no column {column}: set {FIELD}.{field} to one of its columns ({there})"
        raise JobProblem(tables.INPUT_INVALID, message)
    found = _whole(columns[column])
    if found is None or not 1 <= found <= MOST_TOKENS:
        desired = f"a whole number of tokens from 1 to {MOST_TOKENS} is wanted"
        message = f"{where}: column {column} holds {str(columns[column])[:80]!r}, and {desired}"
        raise JobProblem(tables.INPUT_INVALID, message)
    return found


def _whole(value: Any) -> int | None:
    """Return a table's value as a whole number, or None: CSV has texts, and columns with gaps have floats."""
    if isinstance(value, bool):
        return None
    try:
        found = float(value) if isinstance(value, str) else value
        return int(found) if found == int(found) else None
    except (TypeError, ValueError, OverflowError):
        return None
