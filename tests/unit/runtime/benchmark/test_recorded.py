"""Recorded lengths: tables of each format, draws by a seed, and bad values reported by row and column."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from daybreak_runtime.benchmark.load.lengths import requests
from daybreak_runtime.benchmark.load.recorded import with_recorded
from daybreak_runtime.benchmark.order import Load, Order, RecordedFrom
from daybreak_runtime.jobs.problem import JobProblem

PAIRS = ((3, 30), (5, 50), (7, 70))


def load(file: Path, *, seed: int = 0, **more: Any) -> Load:
    return Load(
        clients=(1,), seed=seed, recorded_from=RecordedFrom(f"file://{file}", shown="the table", **more)
    )


def write(folder: Path, kind: str) -> Path:
    """Return the pairs as a table."""
    file = folder / f"lengths.{kind}"
    match kind:
        case "csv":
            file.write_text("id,prompt,output\n" + "".join(f"a,{one},{other}\n" for one, other in PAIRS))
        case "jsonl":
            file.write_text("".join(json.dumps({"prompt": a, "output": b}) + "\n" for a, b in PAIRS))
        case "parquet":
            # With gaps elsewhere, pandas makes a column of whole numbers one of floats.
            columns = {"prompt": [a for a, _ in PAIRS], "output": [float(b) for _, b in PAIRS]}
            parquet.write_table(pyarrow.table(columns), file)
    return file


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_recorded_lengths_match_the_table(tmp_path: Path, kind: str) -> None:
    found = with_recorded(load(write(tmp_path, kind)))
    assert (found.recorded, found.recorded_from) == (PAIRS, None)
    requested = requests(found, 0)
    drawn = {(len(one.prompt), one.output) for one in (next(requested) for _ in range(50))}
    assert drawn == set(PAIRS)


def test_custom_column_names_and_whole_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("in,out\n1,2\n")
    (tmp_path / "b.csv").write_text("out,in\n4,3\n")
    (tmp_path / "_SUCCESS").write_text("")
    assert with_recorded(load(tmp_path, prompt_column="in", output_column="out")).recorded == ((1, 2), (3, 4))


def test_rows_of_long_table_are_sampled_evenly_by_seed(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("prompt,output\n" + "".join(f"{n},{n}\n" for n in range(1, 101)))
    one, same, other = (with_recorded(load(file, seed=seed), 10).recorded for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert len(set(one)) == 10
    dice = random.Random(3)  # noqa: S311 -- seeds of a test
    counts = Counter(
        pair[0]
        for _ in range(200)
        for pair in with_recorded(load(file, seed=dice.randrange(10**6)), 10).recorded
    )
    assert len(counts) == 100, "every row is drawn now and then"
    assert max(counts.values()) < 60, "and none much more often than the 20 times that are meant"


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        (None, "InputNotFound", "the table is not there, or is empty"),
        ("prompt,output\n", "InputInvalid", "the table has no row"),
        ("a,b\n1,2\n", "InputInvalid", "row 1 of a.csv has no column prompt"),
        ("a,b\n1,2\n", "InputInvalid", "promptColumn to one of its columns (a, b)"),
        ("prompt,output\n1,2\n3,x\n", "InputInvalid", "row 2 of a.csv: column output holds 'x'"),
        ("prompt,output\n1.5,2\n", "InputInvalid", "column prompt holds '1.5'"),
        (
            "prompt,output\n1,0\n",
            "InputInvalid",
            "column output holds '0', and a whole number of tokens from 1",
        ),
        ("prompt,output\n1,nan\n", "InputInvalid", "column output holds 'nan'"),
        ("prompt,output\n1,inf\n", "InputInvalid", "column output holds 'inf'"),
        ("prompt,output\n1\n", "InputInvalid", "row 1 of a.csv: the row cannot be read"),
    ],
)
def test_invalid_table_is_rejected_with_reason_and_message(
    tmp_path: Path, text: str | None, reason: str, words: str
) -> None:
    if text is not None:
        (tmp_path / "a.csv").write_text(text)
    with pytest.raises(JobProblem) as found:
        with_recorded(load(tmp_path / "a.csv"))
    assert found.value.reason == reason
    assert found.value.message.startswith("spec.load.traceFrom: ")
    assert words in found.value.message


def test_json_value_that_is_not_a_number_is_rejected(tmp_path: Path) -> None:
    for value in (True, None, [1], {"a": 1}):
        (tmp_path / "a.jsonl").write_text(json.dumps({"prompt": 1, "output": value}) + "\n")
        with pytest.raises(JobProblem, match="column output holds"):
            with_recorded(load(tmp_path / "a.jsonl"))


def test_table_of_unknown_format_is_rejected_unless_format_is_set(tmp_path: Path) -> None:
    (tmp_path / "lengths").write_text("prompt,output\n1,2\n")
    with pytest.raises(JobProblem, match=r"set spec\.load\.traceFrom\.format"):
        with_recorded(load(tmp_path / "lengths"))
    assert with_recorded(load(tmp_path / "lengths", format="CSV")).recorded == ((1, 2),)


def test_order_reads_its_table_and_load_without_table_is_unchanged() -> None:
    plain = {"engine": {"source": "m", "model": "m"}, "load": {"clients": [1]}}
    order = Order.read(plain | {"load": {"clients": [1], "recorded_from": {"uri": "s3://b/x"}}})
    assert order.load.recorded_from == RecordedFrom("s3://b/x")
    same = Order.read(plain).load
    assert with_recorded(same) is same
