"""Reading rows: each gets a number, the same at every reading, and one that cannot be read says why."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daybreak_runtime.batch.order import Place
from daybreak_runtime.jobs import tables
from daybreak_runtime.jobs.storage import Entry, Storage

FIELD = "spec.input"


@dataclass(frozen=True)
class Row:
    """One row of the input."""

    id: int
    columns: Mapping[str, Any]
    error: str = ""
    """Why it cannot be read; empty when it could."""


def input_files(place: Place, storage: Storage) -> Sequence[Entry]:
    """The files of an input. Raises JobProblem when there are none."""
    return tables.files(FIELD, place.shown or place.uri, storage)


def rows(place: Place, files: Iterable[Entry], storage: Storage) -> Iterator[Row]:
    """The rows of the files, numbered from 0. Raises JobProblem when a file cannot be read at all."""
    number = 0
    for entry in files:
        # An OpenAI batch file is one of JSON lines.
        for columns, error in tables.read(FIELD, place.format, entry, storage):
            yield Row(number, columns, error)
            number += 1
