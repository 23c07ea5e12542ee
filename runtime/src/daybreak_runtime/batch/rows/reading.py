"""Reading of rows: each has a number that is the same at every reading; an unreadable row has an error."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daybreak_runtime.batch.order import Place
from daybreak_runtime.jobs import tables
from daybreak_runtime.jobs.storage import Entry, Storage

FIELD = "spec.input"


@dataclass(frozen=True)
class Row:
    """Row of the input."""

    id: int
    columns: Mapping[str, Any]
    error: str = ""
    """Reason why the row cannot be read; empty if it could."""


def input_files(place: Place, storage: Storage) -> Sequence[Entry]:
    """Return the files of an input. Raises JobProblem if there are none."""
    return tables.files(FIELD, place.shown or place.uri, storage)


def rows(place: Place, files: Iterable[Entry], storage: Storage) -> Iterator[Row]:
    """Yield the rows of the files, numbered from 0. Raises JobProblem if a whole file cannot be read."""
    number = 0
    for entry in files:
        # An OpenAI batch file is one of JSON lines.
        for columns, error in tables.read(FIELD, place.format, entry, storage):
            yield Row(number, columns, error)
            number += 1
