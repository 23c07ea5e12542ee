"""Rows out of a bucket and answers into one: a whole batch, and a report, through pyarrow and a fake S3.

Real S3 clients do it; what they ask is answered by `fake_buckets`, and engines are fakes.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daybreak_runtime.batch import __main__ as program
from daybreak_runtime.batch.order import Order
from daybreak_runtime.batch.progress import Progress
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import storage
from tests.unit.runtime.batch.test_whole import FakeEngines, run
from tests.unit.runtime.fake_buckets import ACCESS_KEY, SECRET_KEY, Buckets, served


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Buckets]:
    """A bucket `shop`, and its address and keys as a pod has them."""
    found = Buckets("shop")
    with served(found) as url:
        for name, value in {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "eu-central-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            monkeypatch.setenv(name, value)
        yield found


def order(source: str = "s3://shop/in", form: str = "JSONL") -> Order:
    return Order.read(
        {
            "uid": "u",
            "input": {"uri": source, "format": "Auto"},
            "output": {"uri": "s3://shop/out", "format": form},
            "request": {"prompt": "{{ q }}"},
            "engines": {"source": "m", "engine_args": {}, "bundle": {}, "resource": "r", "batch_size": 4},
        }
    )


def lines(count: int) -> bytes:
    return "\n".join(json.dumps({"q": f"q{n}"}) for n in range(count)).encode()


def written(buckets: Buckets) -> list[dict[str, Any]]:
    parts = sorted(name for name in buckets.objects if name.startswith("shop/out/part-"))
    return [json.loads(line) for name in parts for line in buckets.objects[name].splitlines()]


def test_batch_reads_rows_from_bucket_and_writes_answers_to_bucket(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets.objects |= {"shop/in/a.jsonl": lines(10), "shop/in/deep/b.jsonl": lines(10), "shop/other": b"x"}
    run(monkeypatch, order(), FakeEngines(bad=3), tmp_path)
    found = written(buckets)
    assert sorted(row["row_id"] for row in found) == list(range(20))
    assert sum(row["error"] is not None for row in found) == 3
    assert not buckets.parts, "every upload is completed"


def test_restarted_batch_skips_rows_already_in_bucket(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets.objects["shop/in/a.jsonl"] = lines(20)
    monkeypatch.setattr("daybreak_runtime.batch.output.PART_ROWS", 4)
    with pytest.raises(ConnectionError):
        run(monkeypatch, order(), FakeEngines(dies_after=2), tmp_path / "one")
    done = {row["row_id"] for row in written(buckets)}
    assert done
    engines = FakeEngines()
    run(monkeypatch, order(), engines, tmp_path / "two")
    assert not done & set(engines.requested)
    assert sorted(row["row_id"] for row in written(buckets)) == list(range(20))


def test_parquet_rows_are_answered_in_parquet_output(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = io.BytesIO()
    pq.write_table(pa.table({"q": [f"q{n}" for n in range(9)]}), table)
    buckets.objects["shop/in/a.parquet"] = table.getvalue()
    run(monkeypatch, order("s3://shop/in/a.parquet", "Parquet"), FakeEngines(), tmp_path)
    [part] = [name for name in buckets.objects if name.endswith(".parquet") and "/out/" in name]
    found = pq.read_table(io.BytesIO(buckets.objects[part])).to_pylist()
    assert sorted(row["row_id"] for row in found) == list(range(9))
    assert {row["response"] for row in found} == {"a"}


def problem(desired: Order, folder: Path) -> JobProblem:
    with pytest.raises(JobProblem) as found:
        program.run(desired, Progress("u"), folder)
    return found.value


def test_missing_input_or_bucket_is_reported(buckets: Buckets, tmp_path: Path) -> None:
    assert problem(order("s3://shop/nothing"), tmp_path).reason == "InputNotFound"
    assert problem(order("s3://elsewhere/in"), tmp_path).reason == "InputNotFound"


def test_output_with_foreign_files_is_rejected(buckets: Buckets, tmp_path: Path) -> None:
    buckets.objects |= {"shop/in/a.jsonl": lines(3), "shop/out/theirs.txt": b"x"}
    assert problem(order(), tmp_path).reason == "OutputNotEmpty"
    assert buckets.objects["shop/out/theirs.txt"] == b"x"


def test_unknown_access_key_is_reported_as_access_denied(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets.objects["shop/in/a.jsonl"] = lines(3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody-else")
    assert problem(order(), tmp_path).reason == "AccessDenied"


def test_storage_writes_lists_reads_and_removes_files(buckets: Buckets) -> None:
    place = storage("s3://shop/report")
    large = bytes(range(256)) * 64 * 1024
    place.write("large.bin", large)
    place.write("small.txt", b"x")
    assert [(each.name, each.size) for each in place.files()] == [("large.bin", len(large)), ("small.txt", 1)]
    with place.open("shop/report/large.bin") as file:
        assert file.read() == large
    place.remove("small.txt")
    place.remove("was-never-there")
    assert [each.name for each in place.files()] == ["large.bin"]
