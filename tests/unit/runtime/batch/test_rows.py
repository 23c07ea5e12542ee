"""Reading of rows: numbers stay unchanged, and unreadable rows are reported one by one."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from daybreak_runtime.batch.order import Place
from daybreak_runtime.batch.rows.reading import Row, input_files, rows
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import LocalStorage


def read(root: Path, kind: str = "Auto") -> list[Row]:
    place, storage = Place(f"file://{root}", kind, "pvc://rows/in"), LocalStorage(str(root))
    return list(rows(place, input_files(place, storage), storage))


def test_rows_are_numbered_across_files_in_name_order(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"n": 2}\n')
    (tmp_path / "a.jsonl").write_text('{"n": 0}\n\n{"n": 1}\n')
    assert [(row.id, row.columns["n"]) for row in read(tmp_path)] == [(0, 0), (1, 1), (2, 2)]


def test_line_that_is_not_an_object_becomes_a_row_with_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 0}\n{broken\n[1]\n{"n": 3}\n')
    found = read(tmp_path)
    assert [bool(row.error) for row in found] == [False, True, True, False]
    assert found[3] == Row(3, {"n": 3})


def test_csv_row_with_wrong_number_of_fields_has_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('q,n\n"one, two",1\nshort\nlong,1,2\n')
    found = read(tmp_path)
    assert found[0].columns == {"q": "one, two", "n": "1"}
    assert [bool(row.error) for row in found] == [False, True, True]


def test_hidden_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".a.jsonl.tmp").write_text("x")
    (tmp_path / "a.jsonl").write_text('{"n": 0}\n')
    assert len(read(tmp_path)) == 1


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_missing_or_empty_input_is_reported_with_its_own_uri(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(JobProblem, match="pvc://rows/in is not there") as found:
        read(tmp_path / name)
    assert found.value.reason == "InputNotFound"


def test_unknown_file_format_is_rejected_unless_format_is_set(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text('{"n": 0}\n')
    with pytest.raises(JobProblem, match=r"set spec\.input\.format"):
        read(tmp_path)
    assert len(read(tmp_path, "JSONL")) == 1


def test_csv_file_with_invalid_utf8_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"q\n\xff\xfe\n")
    with pytest.raises(JobProblem) as found:
        read(tmp_path)
    assert found.value.reason == "InputInvalid"


HALVES = [
    '{"q": "cut \\ud83d"}',
    '{"q": "\\ude00 alone"}',
    '{"q\\ud83d": "a"}',
    '{"q": {"deep": ["a", "\\ud83d"]}}',
]


@pytest.mark.parametrize("line", HALVES)
@pytest.mark.parametrize("kind", ["JSONL", "OpenAI"])
def test_lone_surrogate_in_json_is_a_row_error(tmp_path: Path, line: str, kind: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"n": 0}}\n{line}\n{{"q": "whole \\ud83d\\ude00"}}\n')
    found = read(tmp_path, kind)
    assert [bool(row.error) for row in found] == [False, True, False]
    assert "surrogate" in found[1].error
    assert found[1].columns
    assert found[2].columns == {"q": "whole \U0001f600"}


def test_lone_surrogate_or_invalid_utf8_bytes_are_a_row_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"q": "\xed\xa0\xbd"}\n{"q": "\xff"}\n{"n": 2}\n')
    assert [bool(row.error) for row in read(tmp_path)] == [True, True, False]


@pytest.mark.parametrize("depth", [300, 5000])
def test_too_deeply_nested_row_affects_no_other_row(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    (tmp_path / "a.jsonl").write_text(
        f'{{"n": 0}}\n{{"custom_id": "c", "q": {deep}}}\n{{"q": {"[" * 100}{"]" * 100}}}\n'
    )
    found = read(tmp_path)
    assert [bool(row.error) for row in found] == [False, True, False]
    assert "nested" in found[1].error


LINES = b'{"n": 0}\n{"n": 1}\n'


def zstd(content: bytes) -> bytes:
    return bytes(pyarrow.Codec("zstd").compress(content, asbytes=True))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
}


@pytest.mark.parametrize("end", PACKED)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jsonl.{}", "Auto"),
        ("a.JSONL.{}", "JSONL"),
        ("rows.{}", "JSONL"),
        ("a.jsonl", "Auto"),
        ("a", "OpenAI"),
    ],
)
def test_compressed_lines_are_read(tmp_path: Path, end: str, name: str, kind: str) -> None:
    (tmp_path / name.format(end)).write_bytes(PACKED[end](LINES))
    assert [row.columns for row in read(tmp_path, kind)] == [{"n": 0}, {"n": 1}]


@pytest.mark.parametrize("end", PACKED)
def test_compressed_tables_are_read(tmp_path: Path, end: str) -> None:
    (tmp_path / f"a.csv.{end}").write_bytes(PACKED[end](b"n\n0\n1\n"))
    table = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({"n": ["2"]}), table)
    (tmp_path / f"b.parquet.{end}").write_bytes(PACKED[end](table.getvalue().to_pybytes()))
    assert [row.columns for row in read(tmp_path)] == [{"n": "0"}, {"n": "1"}, {"n": "2"}]


@pytest.mark.parametrize("end", ["zip", "7z", "lz4", "br", "tar", "tgz", "tar.gz", "snappy"])
@pytest.mark.parametrize("kind", ["Auto", "JSONL"])
def test_unsupported_compression_is_rejected_with_its_name(tmp_path: Path, end: str, kind: str) -> None:
    (tmp_path / f"a.jsonl.{end}").write_bytes(b"whatever")
    with pytest.raises(
        JobProblem, match=rf"a\.jsonl\.{end} is compressed or an archive \(\.{end}\)"
    ) as found:
        read(tmp_path, kind)
    assert found.value.reason == "InputInvalid"


def test_archive_is_detected_by_content_and_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"PK\x03\x04whatever")
    with pytest.raises(JobProblem, match=r"compressed or an archive \(zip\)"):
        read(tmp_path)


@pytest.mark.parametrize("end", PACKED)
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_truncated_compressed_file_is_rejected(tmp_path: Path, end: str, name: str) -> None:
    packed = PACKED[end](b'"n"\n' + b"".join(b'{"n": %d}\n' % (n * n) for n in range(9999)))
    (tmp_path / f"{name}.{end}").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(JobProblem, match=rf"{name}\.{end}") as found:
        read(tmp_path)
    assert found.value.reason == "InputInvalid"


def test_compressed_file_of_unknown_format_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "rows.gz").write_bytes(gzip.compress(LINES))
    with pytest.raises(JobProblem, match=r"set spec\.input\.format"):
        read(tmp_path)


@pytest.mark.parametrize(
    "content", ['["a", "b"]\n["c", "d"]\n', '[{"n": 0}, {"n": 1}]', '"a"\n3\n', '[\n{\n"n": 0\n}\n]']
)
def test_file_of_json_without_object_lines_is_rejected(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 0}\n')
    (tmp_path / "b.json").write_text(content)
    with pytest.raises(JobProblem, match=r"b\.json.*a JSON object in each line") as found:
        read(tmp_path)
    assert found.value.reason == "InputInvalid"


def test_file_of_invalid_lines_has_an_error_in_each_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{broken\n\n{broken\n[1]\n")
    assert [bool(row.error) for row in read(tmp_path)] == [True, True, True]
