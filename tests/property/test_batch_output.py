"""The output of a batch, whatever dies when: each row leaves once."""

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st

from daybreak_runtime.batch.order import Order, Place, Request
from daybreak_runtime.batch.output import Answer, Fenced, Output
from daybreak_runtime.jobs.storage import Entry, LocalStorage

ROWS = 5
FILES = [Entry("/in/a.jsonl", "a.jsonl", 1, "1")]


def written(folder: Path) -> list[dict[str, Any]]:
    """Return every row of every part."""
    parts = sorted(folder.glob("**/part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


STEPS: st.SearchStrategy[tuple[str, int, list[int]]] = st.one_of(
    st.tuples(
        st.just("answer"), st.integers(0, 1), st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=4)
    ),
    st.tuples(st.just("flush"), st.integers(0, 1), st.just([])),
    st.tuples(st.just("begin"), st.integers(0, 1), st.just([])),
)
"""Actions of one of two processes. A process that begins takes over from all others, which may not know."""


TAKEN_OVER: list[tuple[str, int, list[int]]] = [
    ("begin", 0, []),
    ("answer", 0, [1]),
    ("begin", 1, []),
    ("answer", 1, [1]),
    ("flush", 1, []),
    ("flush", 0, []),
]
"""A process assumed to be dead writes results that another process has already written."""


@hypothesis.example(steps=TAKEN_OVER, kind="JSONL", bad=0)
@hypothesis.given(
    steps=st.lists(STEPS, max_size=40), kind=st.sampled_from(["JSONL", "OpenAI"]), bad=st.integers(0, 5)
)
def test_each_batch_row_is_written_once_for_any_order_of_takeovers(
    steps: list[tuple[str, int, list[int]]], kind: str, bad: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        order = Order("u", Place("file:///in", "Auto"), Place(f"file://{folder}", kind), Request())
        processes: dict[int, Output] = {}

        def answers(rows: list[int]) -> list[Answer]:
            return [
                Answer(n, {"custom_id": f"c{n}"}, {"response": "a"}, "no" if n < bad else "") for n in rows
            ]

        def begin(process: int) -> Output:
            processes[process] = Output(order, LocalStorage(name))
            processes[process].begin(FILES)
            return processes[process]

        for what, process, rows in steps:
            if what == "begin":
                begin(process)  # whatever it held is lost
            elif process in processes:
                try:
                    if what == "answer":
                        processes[process].take(answers(rows))
                    else:
                        processes[process].flush()
                except Fenced:
                    del processes[process]
            assert max(Counter(row["row_id"] for row in written(folder)).values(), default=0) <= 1
        last = begin(9)
        last.take(answers([n for n in range(ROWS) if n not in last.done]))
        last.finish()
        found = written(folder)
        assert Counter(row["row_id"] for row in found) == Counter(range(ROWS))
        assert {row["row_id"] for row in found if row["error"]} == set(range(bad))
        assert last.failed == bad
        if kind == "OpenAI":
            results = (folder / "output.jsonl").read_text().splitlines()
            assert len(results) == ROWS - bad
            assert (folder / "errors.jsonl").exists() == (bad > 0)
