"""Rows from a Google bucket and answers into one, through pyarrow's real client against a fake."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybreak_runtime.batch.order import Order
from daybreak_runtime.jobs import storage as storages
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import storage
from tests.unit.runtime.batch.test_whole import FakeEngines, run
from tests.unit.runtime.fake_gcs import Buckets, served
from tests.unit.runtime.test_buckets import lines


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Buckets]:
    """A bucket `shop`, and its address as a pod has it."""
    found = Buckets("shop")
    with served(found) as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        yield found


def order(form: str = "JSONL") -> Order:
    return Order.read(
        {
            "uid": "u",
            "input": {"uri": "gs://shop/in", "format": "Auto"},
            "output": {"uri": "gs://shop/out", "format": form},
            "request": {"prompt": "{{ q }}"},
            "engines": {"source": "m", "engine_args": {}, "bundle": {}, "resource": "r", "batch_size": 4},
        }
    )


def done(buckets: Buckets) -> list[int]:
    parts = sorted(name for name in buckets.objects if name.startswith("shop/out/part-"))
    return sorted(json.loads(line)["row_id"] for name in parts for line in buckets.objects[name].splitlines())


def test_restarted_batch_skips_rows_already_in_bucket(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets.objects |= {"shop/in/a.jsonl": lines(10), "shop/in/deep/b.jsonl": lines(10), "shop/other": b"x"}
    monkeypatch.setattr("daybreak_runtime.batch.output.PART_ROWS", 4)
    with pytest.raises(ConnectionError):
        run(monkeypatch, order(), FakeEngines(dies_after=2), tmp_path / "one")
    before = done(buckets)
    assert before
    engines = FakeEngines()
    run(monkeypatch, order(), engines, tmp_path / "two")
    assert not set(before) & set(engines.requested)
    assert done(buckets) == list(range(20))
    assert not buckets.uploads, "every upload is completed"


def test_csv_rows_are_answered_in_csv_output(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets.objects["shop/in/a.csv"] = b"q,n\nwhat,1\nwho,2\n"
    run(monkeypatch, order("CSV"), FakeEngines(), tmp_path)
    [part] = [
        content for name, content in buckets.objects.items() if name.endswith(".csv") and "/out/" in name
    ]
    assert part.decode().splitlines() == [
        "q,n,row_id,response,error,prompt_tokens,completion_tokens,finish_reason",
        "what,1,0,a,,,,",
        "who,2,1,a,,,,",
    ]


def test_storage_writes_lists_reads_and_removes_files(buckets: Buckets) -> None:
    place = storage("gs://shop/report")
    large = bytes(range(256)) * 64 * 1024
    place.write("large.bin", large)
    place.write("small.txt", b"x")
    assert [(each.name, each.size) for each in place.files()] == [("large.bin", len(large)), ("small.txt", 1)]
    with place.open("shop/report/large.bin") as file:
        assert file.read() == large
    place.remove("small.txt")
    place.remove("was-never-there")
    assert [each.name for each in place.files()] == ["large.bin"]


@pytest.mark.parametrize(
    ("uri", "reason"), [("gs://shop/in/a", "InputNotFound"), ("gs://closed/in/a", "AccessDenied")]
)
def test_unreadable_object_is_reported_with_reason(buckets: Buckets, uri: str, reason: str) -> None:
    with pytest.raises(JobProblem) as found:
        storage(uri).open(uri.removeprefix("gs://"))
    assert found.value.reason == reason


def test_write_to_closed_bucket_is_reported_as_access_denied(buckets: Buckets) -> None:
    with pytest.raises(JobProblem) as found:
        storage("gs://closed/out").write("a", b"x")
    assert found.value.reason == "AccessDenied"


def test_pod_without_identity_is_reported_as_access_denied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(storages, "GCS_SECONDS", 1)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GCE_METADATA_ROOT", "127.0.0.1:9")
    with pytest.raises(JobProblem, match="access token") as found:
        storage("gs://shop/in").files()
    assert found.value.reason == "AccessDenied"
