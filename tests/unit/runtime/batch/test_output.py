"""The output: every row once, regardless of when the process is killed, and no foreign file overwritten."""

import csv
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from openai.types import Completion, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion
from pyarrow import parquet

from daybreak_runtime.batch.order import Order, Place, Request
from daybreak_runtime.batch.output import Answer, Fenced, Output
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import Entry, LocalStorage

INPUT = [Entry("/in/a.jsonl", "a.jsonl", 10, "1")]


def order(folder: Path, uid: str = "u", kind: str = "JSONL", **more: Any) -> Order:
    return Order(uid, Place("file:///in", "Auto"), Place(f"file://{folder}", kind), Request(), **more)


def begun(folder: Path, **more: Any) -> Output:
    output = Output(order(folder, **more), LocalStorage(str(folder)))
    output.begin(INPUT)
    return output


def good(*rows: int) -> list[Answer]:
    return [
        Answer(n, {"n": n}, {"response": f"a{n}", "prompt_tokens": 2, "completion_tokens": 3}) for n in rows
    ]


def written(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for part in sorted(folder.glob("part-*.jsonl"))
        for line in part.read_text().splitlines()
    ]


def test_successful_and_failed_rows_are_written_to_one_part(tmp_path: Path) -> None:
    output = begun(tmp_path)
    output.take([*good(0), Answer(1, {"n": 1}, error="too long")])
    output.finish()
    assert [(row["row_id"], row["response"], row["error"]) for row in written(tmp_path)] == [
        (0, "a0", None),
        (1, None, "too long"),
    ]
    assert len(list(tmp_path.glob("part-*"))) == 1


def test_restarted_output_keeps_written_rows_and_writes_no_row_twice(tmp_path: Path) -> None:
    first = begun(tmp_path)
    first.take(good(0, 1))
    first.flush()
    first.take(good(2))  # killed before this is written
    assert first.written == 2
    again = begun(tmp_path)
    assert again.done == {0, 1}
    assert (again.prompt_tokens, again.completion_tokens) == (4, 6)
    again.take(good(1, 2, 2, 3))
    again.finish()
    assert sorted(row["row_id"] for row in written(tmp_path)) == [0, 1, 2, 3]


def test_failed_rows_are_counted_after_restart(tmp_path: Path) -> None:
    first = begun(tmp_path)
    first.take([Answer(0, {}, error="no")])
    first.flush()
    again = begun(tmp_path)
    assert (again.failed, again.first_errors) == (1, ["no"])


def test_superseded_output_is_fenced_and_writes_no_rows(tmp_path: Path) -> None:
    old = begun(tmp_path)
    old.take(good(0))
    begun(tmp_path)
    with pytest.raises(Fenced):
        old.flush()
    assert written(tmp_path) == []


def test_temporary_part_file_is_ignored(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / ".part-001-000000.jsonl.12345678.tmp").write_text('{"row_id": 0')
    assert begun(tmp_path).done == set()


def test_output_folder_with_foreign_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").write_text("x")
    with pytest.raises(JobProblem, match=r"theirs\.txt") as found:
        begun(tmp_path)
    assert found.value.reason == "OutputNotEmpty"


def test_output_folder_of_another_batch_is_rejected(tmp_path: Path) -> None:
    begun(tmp_path, uid="other")
    with pytest.raises(JobProblem) as found:
        begun(tmp_path)
    assert found.value.reason == "OutputNotEmpty"


def test_changed_input_is_rejected(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(JobProblem) as found:
        Output(order(tmp_path), LocalStorage(str(tmp_path))).begin([Entry("/in/a.jsonl", "a.jsonl", 11, "2")])
    assert found.value.reason == "InputChanged"


def test_output_without_resume_deletes_earlier_rows(tmp_path: Path) -> None:
    first = begun(tmp_path)
    first.take(good(0))
    first.flush()
    assert begun(tmp_path, resume=False).done == set()
    assert written(tmp_path) == []


def test_input_columns_named_answer_and_error_do_not_fail_the_row(tmp_path: Path) -> None:
    first = begun(tmp_path)
    first.take([Answer(0, {"answer": "42", "error": "theirs"}, {"response": "a"})])
    first.flush()
    again = begun(tmp_path)
    assert (again.done, again.failed) == ({0}, 0)


@pytest.mark.parametrize(("response", "kind"), [(0.5, "float"), ([0.5, 0.25], "list<element: float>")])
def test_parquet_keeps_types_of_scores_and_vectors(tmp_path: Path, response: Any, kind: str) -> None:
    output = begun(tmp_path, kind="Parquet")
    output.take([Answer(0, {"q": "a"}, {"response": response}), Answer(1, {"q": "b"}, error="no")])
    output.finish()
    [part] = tmp_path.glob("part-*.parquet")
    found = parquet.read_table(part)
    assert str(found.schema.field("response").type) == kind
    assert found.column("response").to_pylist() == [response, None]


def test_csv_output_is_read_back_after_restart(tmp_path: Path) -> None:
    first = begun(tmp_path, kind="CSV")
    first.take([*good(0), Answer(1, {"other": [1]}, error="no")])
    first.flush()
    [part] = tmp_path.glob("part-*.csv")
    found = list(csv.DictReader(io.StringIO(part.read_text())))
    assert [row["response"] for row in found] == ["a0", ""]
    again = begun(tmp_path, kind="CSV")
    assert (again.done, again.failed) == ({0, 1}, 1)


def test_openai_results_and_errors_are_written_to_two_files(tmp_path: Path) -> None:
    requested = {"custom_id": "c0", "method": "POST", "url": "/v1/chat/completions", "body": {}}
    output = begun(tmp_path, kind="OpenAI")
    output.take([Answer(0, requested, {"response": "hello", "prompt_tokens": 1, "completion_tokens": 2})])
    output.flush()
    output = begun(tmp_path, kind="OpenAI")
    assert output.done == {0}
    output.take([Answer(1, {"custom_id": "c1"}, error="no body")])
    output.finish()
    [result] = [json.loads(line) for line in (tmp_path / "output.jsonl").read_text().splitlines()]
    [error] = [json.loads(line) for line in (tmp_path / "errors.jsonl").read_text().splitlines()]
    assert result["custom_id"] == "c0"
    assert result["response"]["body"]["choices"][0]["message"]["content"] == "hello"
    assert result["response"]["body"]["usage"]["total_tokens"] == 3
    assert (error["custom_id"], error["error"]["message"]) == ("c1", "no body")


@pytest.mark.parametrize(
    ("url", "kind", "answer"),
    [
        ("/v1/chat/completions", ChatCompletion, {"response": "hello", "finish_reason": "length"}),
        ("/v1/completions", Completion, {"response": "hello", "finish_reason": "stop"}),
        ("/v1/embeddings", CreateEmbeddingResponse, {"response": [0.5, 0.25]}),
    ],
)
def test_openai_bodies_of_own_model_parse_as_openai_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, kind: Any, answer: dict[str, Any]
) -> None:
    monkeypatch.setattr("daybreak_runtime.batch.output.time.time", lambda: 1_700_000_000.75)
    requested = {"custom_id": "c0", "method": "POST", "url": url, "body": {}}
    output = begun(tmp_path, kind="OpenAI")
    output.take([Answer(0, requested, {**answer, "prompt_tokens": 3}), Answer(1, requested, answer)])
    output.finish()
    lines = [json.loads(line) for line in (tmp_path / "output.jsonl").read_text().splitlines()]
    found = [kind.model_validate(each["response"]["body"], strict=True) for each in lines]
    assert [each.usage.total_tokens for each in found] == [3, 0]
    if kind is not CreateEmbeddingResponse:
        assert {each.created for each in found} == {1_700_000_000}


def test_part_of_earlier_version_without_created_parses_as_completion(tmp_path: Path) -> None:
    output = begun(tmp_path, kind="OpenAI")
    requested = {"custom_id": "c0", "url": "/v1/completions"}
    output.take([Answer(0, requested, {"response": "hello"})])
    output.flush()
    [part] = (tmp_path / "_daybreak" / "parts").iterdir()
    without = json.loads(part.read_text())
    del without["created"]
    part.write_text(json.dumps(without) + "\n")
    output.finish()
    Completion.model_validate(json.loads((tmp_path / "output.jsonl").read_text())["response"]["body"])


def test_openai_files_are_written_without_holding_them_in_memory(tmp_path: Path) -> None:
    output, text = begun(tmp_path, kind="OpenAI"), "x" * 100_000
    for part in range(10):
        rows = range(20 * part, 20 * part + 20)
        output.take(Answer(n, {"custom_id": f"{n}"}, {"response": text}, "" if n % 2 else text) for n in rows)
        output.flush()
    tracemalloc.start()
    output.finish()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sizes = [(tmp_path / name).stat().st_size for name in ("output.jsonl", "errors.jsonl")]
    assert min(sizes) > 10_000_000
    assert most < 10_000_000


HALF = "\ud83d"
"""One half of a surrogate pair: valid in a Python string and as an escape in JSON, and not in UTF-8."""


def read_back(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the rows of all parts."""
    found: list[dict[str, Any]] = []
    for part in sorted(folder.glob("part-*")):
        if kind == "Parquet":
            found += parquet.read_table(part).to_pylist()
        elif kind == "CSV":
            found += csv.DictReader(io.StringIO(part.read_text(encoding="utf-8"), newline=""))
        else:
            found += [json.loads(line) for line in part.read_text(encoding="utf-8").splitlines()]
    return found


@pytest.mark.parametrize("kind", ["JSONL", "CSV", "Parquet"])
@pytest.mark.parametrize("place", ["column", "name", "nested", "response", "error"])
def test_lone_surrogate_in_a_row_is_replaced_and_affects_no_other_row(
    tmp_path: Path, kind: str, place: str
) -> None:
    odd = {
        "column": Answer(0, {"q": f"cut {HALF}"}, {"response": "a"}),
        "name": Answer(0, {f"q{HALF}": "b"}, {"response": "a"}),
        "nested": Answer(0, {"q": {"deep": [f"cut {HALF}"]}}, {"response": "a"}),
        "response": Answer(0, {"q": "b"}, {"response": f"cut {HALF}"}),
        "error": Answer(0, {"q": "b"}, error=f"cut {HALF}"),
    }[place]
    output = begun(tmp_path, kind=kind)
    output.take([odd, Answer(1, {"q": "whole \U0001f600"}, {"response": "fine"})])
    output.finish()
    found = {int(row["row_id"]): row for row in read_back(tmp_path, kind)}
    assert found[1]["response"] == "fine"
    if place != "nested":  # Parquet has one type per column, so texts alongside objects leave as JSON
        assert found[1]["q"] == "whole \U0001f600"
    assert "\ufffd" in json.dumps(found[0], ensure_ascii=False)
    again = begun(tmp_path, kind=kind)
    assert again.done == {0, 1}


def test_adjacent_surrogate_halves_are_joined_to_one_emoji(tmp_path: Path) -> None:
    output = begun(tmp_path)
    output.take([Answer(0, {"q": "\ud83d" + "\ude00"}, {"response": "a"})])
    output.finish()
    assert written(tmp_path)[0]["q"] == "\U0001f600"


def test_openai_files_replace_lone_surrogates(tmp_path: Path) -> None:
    requested = {"custom_id": f"c{HALF}", "method": "POST", "url": "/v1/chat/completions", "body": {}}
    output = begun(tmp_path, kind="OpenAI")
    output.take([Answer(0, requested, {"response": HALF}), Answer(1, {"custom_id": "c1"}, error=HALF)])
    output.finish()
    [result] = [json.loads(line) for line in (tmp_path / "output.jsonl").read_bytes().splitlines()]
    assert result["custom_id"] == "c\ufffd"
    parsed = ChatCompletion.model_validate(result["response"]["body"])
    assert parsed.choices[0].message.content == "\ufffd"
    [error] = [json.loads(line) for line in (tmp_path / "errors.jsonl").read_bytes().splitlines()]
    assert error["error"]["message"] == "\ufffd"


DEEP: Any = "leaf"
for _ in range(150):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"tags": {}},
        [{}],
        {"list": [{"a": {}}]},
        2**63,
        2**64 - 1,
        -(2**63) - 1,
        {"id": 2**64 - 1},
        [2**63],
        DEEP,
    ],
    ids=lambda value: str(value)[:30],
)
def test_column_unsupported_by_parquet_is_written_as_json_text(tmp_path: Path, value: Any) -> None:
    output = begun(tmp_path, kind="Parquet")
    output.take([Answer(0, {"odd": value, "q": "a"}, {"response": "x"}), Answer(1, {"q": "b"}, error="no")])
    output.finish()
    first, second = read_back(tmp_path, "Parquet")
    assert (json.loads(first["odd"]), second["odd"]) == (value, None)
    assert (first["q"], first["response"], second["error"]) == ("a", "x", "no")
    again = begun(tmp_path, kind="Parquet")
    assert (again.done, again.failed) == ({0, 1}, 1)


def test_column_supported_by_parquet_keeps_its_value(tmp_path: Path) -> None:
    output = begun(tmp_path, kind="Parquet")
    columns = {"id": 2**63 - 1, "struct": {"a": [1, 2]}, "none": None, "empty": []}
    output.take([Answer(0, columns, {"response": "x"})])
    output.finish()
    [row] = read_back(tmp_path, "Parquet")
    assert {name: row[name] for name in columns} == columns


@pytest.mark.parametrize("tokens", ["many", 2**70, 1.5, [3], True])
@pytest.mark.parametrize("kind", ["JSONL", "CSV", "Parquet", "OpenAI"])
def test_invalid_token_counts_are_ignored(tmp_path: Path, tokens: Any, kind: str) -> None:
    output = begun(tmp_path, kind=kind)
    message = {"response": "x", "body": {}, "prompt_tokens": tokens}  # as a service answers
    output.take([Answer(0, {"custom_id": "c"}, message), *good(1)])
    output.finish()
    assert output.prompt_tokens == 2
    assert begun(tmp_path, kind=kind).prompt_tokens == 2
