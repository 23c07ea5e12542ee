"""Output of a batch, written by one process in atomic parts.

A part has successful and failed rows with their numbers, so the parts are also the checkpoint. A restarted
process reads the numbers, and requests only the other rows. Answers that were not written yet are requested
again, and leave nothing behind.
"""

import csv
import hashlib
import io
import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from daybreak_runtime.batch import parquet_part
from daybreak_runtime.batch.order import Order
from daybreak_runtime.batch.rows import openai_format
from daybreak_runtime.jobs.json_text import encode_utf8
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import Entry, Storage

OUTPUT_NOT_EMPTY, INPUT_CHANGED, OUTPUT_INVALID = "OutputNotEmpty", "InputChanged", "OutputInvalid"
STATE = "_daybreak/state.json"
PARTS = "_daybreak/parts"
"""Folder of parts in another format than the output's own."""
PART_ROWS, PART_SECONDS = 2000, 10.0
"""Rows of a part, and seconds since the previous part after which the next answer completes one."""
PARQUET_FIELDS = ("row_id", "response", "error", "prompt_tokens", "completion_tokens", "finish_reason")
_MAX_TOKENS = 2**53
"""Maximum count of tokens of a row. A larger one is no count."""
_ENDS = {"JSONL": "jsonl", "Parquet": "parquet", "CSV": "csv"}


@dataclass(frozen=True)
class Answer:
    """Result of a row."""

    row: int
    columns: Mapping[str, Any]
    answer: Mapping[str, Any] = field(default_factory=dict)
    """`response` with its details: tokens and finish reason."""
    error: str = ""
    """Reason why there is no answer; empty if there is one."""


class Fenced(Exception):
    """Another process continues this batch, so this one must stop writing."""


class Output:
    """Single writer of a batch's output.

    Args:
        order: The batch.
        storage: Storage of the output.
    """

    def __init__(self, order: Order, storage: Storage) -> None:
        self._order = order
        self._storage = storage
        self._attempt = 0
        self._number = 0
        self._waiting: list[Answer] = []
        self._written = time.monotonic()
        self.done: set[int] = set()
        """Numbers of the rows that are written, or wait for the next part."""
        self.failed = 0
        """Number of failed rows."""
        self.first_errors: list[str] = []
        """Errors of the first failed rows."""
        self.prompt_tokens = 0
        self.completion_tokens = 0

    @property
    def written(self) -> int:
        """Number of written rows.

        Progress reports it, because it never decreases when a process is killed.
        """
        return len(self.done) - len(self._waiting)

    def begin(self, files: Iterable[Entry]) -> None:
        """Take over the output, empty or left by an earlier process of this batch.

        Raises JobProblem if it has other content, or the input has changed.
        """
        print_of_input = _fingerprint(files)
        there = self._storage.files()
        state = self._state() if any(entry.name == STATE for entry in there) else {}
        foreign = [entry.name for entry in there if not _hidden(entry.name)]
        if state.get("uid") != self._order.uid:
            if state or foreign:
                named = foreign[0] if foreign else STATE
                place = self._order.output.shown or self._order.output.uri
                raise JobProblem(
                    OUTPUT_NOT_EMPTY,
                    f"spec.output: {place} is not empty: it holds {named}. "
                    "Name an empty place, or remove what is there",
                )
            state = {}
        elif not self._order.resume:
            for entry in there:
                if entry.name != STATE:
                    self._storage.remove(entry.name)
        elif state.get("input") not in (None, print_of_input):
            raise JobProblem(
                INPUT_CHANGED,
                "spec.input has changed since the batch began: rows would get the answers of others. "
                "Put it back, or make a new LLMBatch with another output",
            )
        self._attempt = int(state.get("attempt", 0)) + 1
        new = {"uid": self._order.uid, "attempt": self._attempt, "input": print_of_input}
        self._storage.write(STATE, json.dumps(new).encode())
        if state and self._order.resume:
            self._recall()

    def take(self, answers: Iterable[Answer]) -> None:
        """Keep answers until the next part; known rows are skipped."""
        for each in answers:
            if each.row in self.done:
                continue
            self.done.add(each.row)
            self._waiting.append(each)
            self._count(each.error, each.answer)
        due = time.monotonic() - self._written > PART_SECONDS
        if len(self._waiting) >= PART_ROWS or (due and self._waiting):
            self.flush()

    def flush(self) -> None:
        """Write the waiting answers as one part. Raises Fenced if another process has taken over."""
        self._written = time.monotonic()
        if not self._waiting:
            return
        if self._state().get("attempt") != self._attempt:
            raise Fenced("another process continues this batch")
        rows, self._waiting = self._waiting, []
        name = f"part-{self._attempt:03d}-{self._number:06d}"
        self._number += 1
        kind = self._order.output.format
        if kind == "OpenAI":
            self._storage.write(f"{PARTS}/{name}.jsonl", _jsonl(rows))
        else:
            self._storage.write(f"{name}.{_ENDS[kind]}", _WRITERS[kind](rows))

    def finish(self) -> None:
        """Write the last part, and the two files of OpenAI's format."""
        self.flush()
        if self._order.output.format != "OpenAI":
            return
        engines, service = self._order.engines, self._order.service
        model = service.model if service else engines.name if engines else ""
        # On disk, because together they are as large as the whole output.
        with tempfile.TemporaryFile() as results, tempfile.TemporaryFile() as errors:
            for entry in self._storage.files(PARTS):
                for found in self._lines(entry):
                    good, line = openai_format.line(
                        found["row_id"],
                        found["columns"],
                        found["answer"],
                        found["error"],
                        model,
                        # Parts of earlier versions have no time.
                        found.get("created") or int(time.time()),
                    )
                    (results if good else errors).write(line)
            for name, file in ((openai_format.RESULTS, results), (openai_format.ERRORS, errors)):
                if file.tell() or file is results:
                    file.seek(0)
                    self._storage.upload(name, file)

    def _recall(self) -> None:
        kind = self._order.output.format
        parts = self._storage.files(PARTS) if kind == "OpenAI" else self._storage.files()
        for entry in parts:
            if not entry.name.startswith("part-"):
                continue
            for found in self._read(entry, kind):
                row = int(found["row_id"])
                if row not in self.done:
                    self.done.add(row)
                    self._count(found.get("error") or "", found)

    def _read(self, entry: Entry, kind: str) -> Iterable[Mapping[str, Any]]:
        if kind == "Parquet":
            from pyarrow import parquet

            with self._storage.open(entry.path) as file:
                table = parquet.read_table(file)
                known = [name for name in PARQUET_FIELDS if name != "response"]
                found: list[Mapping[str, Any]] = table.select(known).to_pylist()
                return found
        if kind == "CSV":
            with io.TextIOWrapper(self._storage.open(entry.path), encoding="utf-8", newline="") as text:
                return list(csv.DictReader(text))
        lines = self._lines(entry)
        return [{**each["answer"], **each} for each in lines] if kind == "OpenAI" else lines

    def _lines(self, entry: Entry) -> list[Any]:
        with self._storage.open(entry.path) as file:
            return [json.loads(line) for line in file if line.strip()]

    def _state(self) -> Mapping[str, Any]:
        for entry in self._storage.files("_daybreak"):
            if entry.name == "state.json":
                with self._storage.open(entry.path) as file:
                    found = json.loads(file.read() or b"{}")
                return found if isinstance(found, dict) else {}
        return {}

    def _count(self, error: str, answer: Mapping[str, Any]) -> None:
        if error:
            self.failed += 1
            if len(self.first_errors) < 3:
                self.first_errors.append(error)
        self.prompt_tokens += _tokens(answer.get("prompt_tokens")) or 0
        self.completion_tokens += _tokens(answer.get("completion_tokens")) or 0


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


def _fingerprint(files: Iterable[Entry]) -> str:
    listed = [[entry.name, entry.size, entry.version] for entry in files]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:16]


def _flat(answer: Answer) -> dict[str, Any]:
    """Return the row as it is written: the input's columns, overridden by Daybreak's."""
    own = {
        "row_id": answer.row,
        "response": answer.answer.get("response"),
        "error": answer.error or None,
        "prompt_tokens": _tokens(answer.answer.get("prompt_tokens")),
        "completion_tokens": _tokens(answer.answer.get("completion_tokens")),
        "finish_reason": answer.answer.get("finish_reason"),
    }
    return {**answer.columns, **own}


def _tokens(value: Any) -> int | None:
    """Return a count of tokens, or None if a service reports something else. CSV has counts as text."""
    if isinstance(value, str) and value.isdecimal() and len(value) < len(str(_MAX_TOKENS)):
        return int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= _MAX_TOKENS else None


def _jsonl(rows: Sequence[Answer]) -> bytes:
    now = int(time.time())
    found = [
        {
            "row_id": each.row,
            "columns": each.columns,
            "answer": each.answer,
            "error": each.error,
            "created": now,
        }
        for each in rows
    ]
    return b"".join(_line(each) for each in found)


def _flat_jsonl(rows: Sequence[Answer]) -> bytes:
    return b"".join(_line(_flat(each)) for each in rows)


def _line(value: Mapping[str, Any]) -> bytes:
    return encode_utf8(json.dumps(value, ensure_ascii=False, default=str)) + b"\n"


def _csv(rows: Sequence[Answer]) -> bytes:
    flat = [_flat(each) for each in rows]
    names = list(dict.fromkeys(name for each in flat for name in each))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    for each in flat:
        writer.writerow({name: _cell(value) for name, value in each.items()})
    return encode_utf8(text.getvalue())


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else value


def _parquet(rows: Sequence[Answer]) -> bytes:
    return parquet_part.write([_flat(each) for each in rows])


_WRITERS = {"JSONL": _flat_jsonl, "CSV": _csv, "Parquet": _parquet}
