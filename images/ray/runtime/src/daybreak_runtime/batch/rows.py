"""Reading rows: each gets a number, the same at every reading, and one that cannot be read says why."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from daybreak_runtime.batch.order import Place
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import INPUT_MISSING, Entry, Storage

INPUT_INVALID = "InputInvalid"
FORMATS = {
    ".jsonl": "JSONL",
    ".ndjson": "JSONL",
    ".json": "JSONL",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
}
"""Formats by the end of a file's name."""
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True)
class Row:
    """One row of the input."""

    id: int
    columns: Mapping[str, Any]
    error: str = ""
    """Why it cannot be read; empty when it could."""


def input_files(place: Place, storage: Storage) -> Sequence[Entry]:
    """The files of an input. Raises JobProblem when there are none.

    Names that begin with `.` or `_` are passed over, as usual with tools that write folders of parts.
    """
    found = [
        entry
        for entry in storage.files()
        if not any(part.startswith((".", "_")) for part in entry.name.split("/"))
    ]
    if not found:
        raise JobProblem(INPUT_MISSING, f"spec.input: {place.shown or place.uri} is not there, or is empty")
    return found


def rows(place: Place, files: Iterable[Entry], storage: Storage) -> Iterator[Row]:
    """The rows of the files, numbered from 0. Raises JobProblem when a file cannot be read at all."""
    number = 0
    for entry in files:
        kind = _format(place, entry)
        with storage.open(entry.path) as file:
            reader = {"Parquet": _parquet, "CSV": _csv}.get(kind, _jsonl)
            try:
                for columns, error in reader(file):
                    yield Row(number, columns, error)
                    number += 1
            except (UnicodeDecodeError, csv.Error, ValueError) as error:
                raise JobProblem(INPUT_INVALID, f"spec.input: {entry.name} is not {kind}: {error}") from error


def _format(place: Place, entry: Entry) -> str:
    if place.format != "Auto":
        return place.format
    for end, kind in FORMATS.items():
        if entry.name.lower().endswith(end):
            return kind
    raise JobProblem(
        INPUT_INVALID,
        f"spec.input: the format of {entry.name} cannot be told by its name: "
        f"set spec.input.format, or end the name in one of {', '.join(FORMATS)}",
    )


def _jsonl(file: IO[bytes]) -> Iterator[tuple[Mapping[str, Any], str]]:
    for line in file:
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            yield {}, f"the row cannot be read: {error}"
            continue
        if isinstance(value, dict):
            yield value, ""
        else:
            yield {}, "the row cannot be read: a JSON object is wanted"


def _csv(file: IO[bytes]) -> Iterator[tuple[Mapping[str, Any], str]]:
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        for columns in csv.DictReader(text):
            if None in columns or None in columns.values():
                named = {name: value for name, value in columns.items() if name is not None}
                yield named, "the row cannot be read: it has not as many fields as the first line"
            else:
                yield columns, ""


def _parquet(file: IO[bytes]) -> Iterator[tuple[Mapping[str, Any], str]]:
    from pyarrow import ArrowInvalid, parquet

    try:
        source = parquet.ParquetFile(file)
        for batch in source.iter_batches(batch_size=1024):
            for columns in batch.to_pylist():
                yield columns, ""
    except ArrowInvalid as error:
        raise ValueError(str(error)) from error
