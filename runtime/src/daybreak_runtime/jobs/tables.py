"""Reading of tables, row by row: JSON lines, CSV and Parquet."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from daybreak_runtime.jobs.compression import (
    CompressionError,
    decompressed,
    plain_name,
    rejected_end,
    rejection,
)
from daybreak_runtime.jobs.json_text import DEPTH_LIMIT, find_surrogate, is_too_deep
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import INPUT_MISSING, Entry, Storage, copied

INPUT_INVALID = "InputInvalid"
AUTO = "Auto"
"""Format that depends on the end of a file's name."""
FORMATS = {
    ".jsonl": "JSONL",
    ".ndjson": "JSONL",
    ".json": "JSONL",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
}
"""Formats by the end of a file's name."""
HALF_OF_A_PAIR = "half of a surrogate pair, such as \\ud83d alone, which is no text in UTF-8"
_NO_OBJECT = "the row cannot be read: a JSON object is wanted"
_NO_LINES = 'no line is an object. Write a JSON object in each line, such as {"text": "a"}'
_TOO_DEEP = f"the row cannot be read: it is nested more than {DEPTH_LIMIT} levels deep"
_RAW_SURROGATE = b"\xed"
"""First byte of a surrogate that is written as if it were a character. Python's parser accepts it."""
csv.field_size_limit(2**31 - 1)


def files(field: str, shown: str, storage: Storage) -> Sequence[Entry]:
    """Return the files of a table. Raises JobProblem if there are none.

    Names that begin with `.` or `_` are skipped, as usual with tools that write folders of parts.

    Args:
        field: Field of the spec that names the location.
        shown: Location as the user wrote it.
        storage: Storage of the location.
    """
    found = [
        entry
        for entry in storage.files()
        if not any(part.startswith((".", "_")) for part in entry.name.split("/"))
    ]
    if not found:
        raise JobProblem(INPUT_MISSING, f"{field}: {shown} is not there, or is empty")
    return found


def read(field: str, desired: str, entry: Entry, storage: Storage) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the rows of a file: columns, and the reason why a row cannot be read, which is empty if it can.

    Raises JobProblem if the whole file cannot be read.

    Args:
        field: Field of the spec that names the location.
        desired: Format; `Auto` depends on the file's name.
        entry: The file.
        storage: Storage of the file.
    """
    if rejected := rejected_end(entry.name):
        raise JobProblem(INPUT_INVALID, f"{field}: {entry.name} {rejection(rejected)}")
    kind = _format(field, desired, entry)
    with storage.open(entry.path) as file:
        reader = {"Parquet": _parquet, "CSV": _csv}.get(kind, _jsonl)
        try:
            with decompressed(file) as content:
                if kind != "Parquet" or content is file:
                    yield from reader(content)
                    return
                # Parquet is read from its end.
                with copied(content) as whole:
                    yield from reader(whole)
        except CompressionError as error:
            raise JobProblem(INPUT_INVALID, f"{field}: {entry.name} {error}") from error
        except (UnicodeDecodeError, csv.Error, ValueError) as error:
            raise JobProblem(INPUT_INVALID, f"{field}: {entry.name} is not {kind}: {error}") from error


def _format(field: str, desired: str, entry: Entry) -> str:
    if desired != AUTO:
        return desired
    for end, kind in FORMATS.items():
        if plain_name(entry.name).endswith(end):
            return kind
    raise JobProblem(
        INPUT_INVALID,
        f"{field}: the format of {entry.name} cannot be derived from its name: "
        f"set {field}.format, or end the name in one of {', '.join(FORMATS)}",
    )


def _jsonl(file: IO[bytes]) -> Iterator[tuple[Mapping[str, Any], str]]:
    first = b""
    other: list[str] | None = []
    for line in file:
        if not line.strip():
            continue
        first = first or line.strip()
        found = _row(line)
        if other is not None and (found[0] or not found[1]):
            yield from (({}, error) for error in other)
            other = None
        if other is None:
            yield found
        else:
            other.append(found[1])
    # Rows wait until the first object: if a file has none, the file is wrong, not its rows.
    if other and (set(other) == {_NO_OBJECT} or first in (b"[", b"{")):
        raise ValueError(_NO_LINES)
    yield from (({}, error) for error in other or ())


def _row(line: bytes) -> tuple[Mapping[str, Any], str]:
    """Parse a line. Returns its columns, and the reason why it cannot be read."""
    try:
        value = json.loads(line)
    except ValueError as error:
        return {}, f"the row cannot be read: {error}"
    except RecursionError:
        return {}, _TOO_DEEP
    return _checked(line, value) if isinstance(value, dict) else ({}, _NO_OBJECT)


def _checked(line: bytes, value: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Reject a row that no output and no engine accepts. Only suspicious lines are searched."""
    if line.count(b"[") + line.count(b"{") > DEPTH_LIMIT and is_too_deep(value):
        flat = {name: each for name, each in value.items() if not isinstance(each, dict | list)}
        return flat, _TOO_DEEP
    if b"\\u" in line or _RAW_SURROGATE in line:
        for name, each in value.items():
            if find_surrogate(name) or find_surrogate(each):
                return value, f"the row cannot be read: column {name!a} holds {HALF_OF_A_PAIR}"
    return value, ""


def _csv(file: IO[bytes]) -> Iterator[tuple[Mapping[str, Any], str]]:
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        for columns in csv.DictReader(text):
            if None in columns or None in columns.values():
                named = {name: value for name, value in columns.items() if name is not None}
                yield named, "the row cannot be read: it has not as many fields as the first line"
            else:
                yield columns, ""


def _parquet(file: IO[bytes]) -> Iterator[tuple[Mapping[str, Any], str]]:
    from pyarrow import ArrowException, parquet

    try:
        source = parquet.ParquetFile(file)
        for batch in source.iter_batches(batch_size=1024):
            for columns in batch.to_pylist():
                yield columns, ""
    except ArrowException as error:
        raise ValueError(str(error)) from error
