"""A whole batch without Ray: read, answer, write, and report; engines are fakes with preset failures."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak_runtime.batch import __main__ as program
from daybreak_runtime.batch.order import Order
from daybreak_runtime.batch.output import Answer
from daybreak_runtime.batch.progress import PATH, Progress
from daybreak_runtime.jobs.port import HEARD
from daybreak_runtime.jobs.problem import JobProblem


def order(folder: Path, **more: Any) -> Order:
    return Order.read(
        {
            "uid": "u",
            "input": {"uri": f"file://{folder}/in", "format": "Auto"},
            "output": {"uri": f"file://{folder}/out", "format": "JSONL"},
            "request": {"prompt": "{{ q }}"},
            "engines": {"source": "m", "engine_args": {}, "bundle": {}, "resource": "r", "batch_size": 4},
            **more,
        }
    )


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"q": f"q{n}"}) for n in range(20)]
    (tmp_path / "in" / "a.jsonl").write_text("\n".join([*lines, "{broken", ""]))
    return tmp_path


class FakeEngines:
    """Fake that answers every row, some with an error, and dies after `dies_after` batches."""

    def __init__(self, dies_after: int = 99, bad: int = 0) -> None:
        self.dies_after, self.bad = dies_after, bad
        self.requested: list[int] = []

    def __call__(self, order: Order, staged: Any) -> Iterator[list[Answer]]:
        for number, block in enumerate(staged.blocks):
            if number >= self.dies_after:
                raise ConnectionError("the cluster is gone")
            read = [json.loads(line) for line in block.lines()]
            self.requested += [row["id"] for row in read]
            yield [
                Answer(row["id"], row["columns"], error="no")
                if row["id"] < self.bad
                else Answer(row["id"], row["columns"], {"response": "a"})
                for row in read
            ]


def run(monkeypatch: pytest.MonkeyPatch, desired: Order, engines: FakeEngines, folder: Path) -> Progress:
    monkeypatch.setattr(program, "_answers", engines)
    progress = Progress(desired.uid)
    program.run(desired, progress, folder)
    return progress


def written(folder: Path) -> list[dict[str, Any]]:
    parts = sorted((folder / "out").glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def test_every_row_is_written_once_with_answer_or_error(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = run(monkeypatch, order(rows), FakeEngines(bad=3), rows / "tmp")
    found = written(rows)
    assert sorted(row["row_id"] for row in found) == list(range(21))
    assert sum(row["error"] is not None for row in found) == 4
    assert progress.report()["rows"] == {"total": 21, "done": 21, "failed": 4}


@pytest.mark.parametrize("after", range(6))
def test_restarted_batch_continues_after_the_written_rows(
    rows: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr("daybreak_runtime.batch.output.PART_ROWS", 4)
    if after < 5:
        with pytest.raises(ConnectionError):
            run(monkeypatch, order(rows), FakeEngines(dies_after=after), rows / "tmp1")
    else:
        run(monkeypatch, order(rows), FakeEngines(), rows / "tmp1")
    done = {row["row_id"] for row in written(rows)}
    again = FakeEngines()
    run(monkeypatch, order(rows), again, rows / "tmp2")
    assert not done & set(again.requested)
    assert sorted(row["row_id"] for row in written(rows)) == list(range(21))


def test_too_many_failed_rows_end_batch_and_written_rows_are_kept(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JobProblem) as found:
        run(monkeypatch, order(rows, max_failed_rows=3), FakeEngines(bad=9), rows / "tmp")
    assert found.value.reason == "TooManyErrors"
    assert len(written(rows)) >= 4


def test_first_failed_row_ends_the_batch_with_fail_on_error(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JobProblem, match="1 rows have failed, and 0 may"):
        run(monkeypatch, order(rows, fail_on_error=True), FakeEngines(), rows / "tmp")


def test_missing_column_ends_batch_before_engine_start_and_output(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = FakeEngines()
    with pytest.raises(JobProblem, match=r"spec\.prompt: no row has a column question; there are q") as found:
        run(monkeypatch, order(rows, request={"prompt": "{{ question }}"}), engines, rows / "tmp")
    assert (found.value.reason, engines.requested) == ("ColumnNotFound", [])
    assert not list((rows / "out").rglob("*"))
    run(monkeypatch, order(rows, uid="mended"), engines, rows / "tmp")
    assert len(written(rows)) == 21


def test_column_present_in_some_rows_does_not_end_the_batch(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (rows / "in" / "b.jsonl").open("w") as file:
        file.write(json.dumps({"question": "late"}))
    engines = FakeEngines()
    run(monkeypatch, order(rows, request={"prompt": "{{ question }}"}), engines, rows / "tmp")
    assert sorted(engines.requested) == [*range(20), 21]


def test_batch_end_waits_until_final_report_is_acknowledged() -> None:
    progress = Progress("u")
    port = progress.listen(0)
    kept: list[bool] = []
    ending = threading.Thread(target=lambda: kept.append(progress.end("InputNotFound", "gone")))
    ending.start()

    def ask(query: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{PATH}{query}", timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found

    while not (message := ask(""))["final"]:
        pass
    assert (message["state"], message["reason"], message["message"]) == ("Failed", "InputNotFound", "gone")
    assert ending.is_alive()
    ask(f"?{HEARD}")
    ending.join(10)
    progress.close()
    assert kept == [True]


def test_order_with_unknown_field_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no field colour"):
        order(tmp_path, request={"prompt": "a", "colour": "red"})


def folder_with(tmp_path: Path, *lines: str) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.parametrize("kind", ["JSONL", "CSV", "Parquet", "OpenAI"])
def test_row_with_lone_surrogate_fails_only_itself_in_any_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def line(text: str, number: int) -> str:
        requested = {"custom_id": f"c{number}", "method": "POST", "url": "/v1/completions", "body": {}}
        return json.dumps({**requested, "q": text, "id": 2**63 + number, "metadata": {}})

    folder = folder_with(tmp_path, line("a", 0), line("cut \ud83d", 1), line("b", 2))
    desired = order(folder, output={"uri": f"file://{folder}/out", "format": kind})
    progress = run(monkeypatch, desired, FakeEngines(), folder / "tmp")
    assert progress.report()["rows"] == {"total": 3, "done": 3, "failed": 1}
    assert "surrogate" in progress.report()["errors"][0]


def test_batch_fails_if_every_row_failed_also_after_restart(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JobProblem, match="All 21 rows failed; first error: the row cannot be read") as found:
        run(monkeypatch, order(rows), FakeEngines(bad=21), rows / "tmp")
    assert found.value.reason == "TooManyErrors"
    assert len(written(rows)) == 21
    # KubeRay restarts a job if its final report was not received: the job must not succeed then.
    with pytest.raises(JobProblem, match="All 21 rows failed"):
        run(monkeypatch, order(rows), FakeEngines(), rows / "again")


def test_batch_of_empty_input_completes_with_zero_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path, "", "")
    assert run(monkeypatch, order(folder), FakeEngines(), folder / "tmp").report()["rows"]["total"] == 0


def ending(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    raised: Exception,
    received: bool = True,
) -> tuple[int, dict[str, Any], list[str]]:
    """Run the program with a batch that raises. Returns its status, its own error and the noise before it."""

    def noisy(*_: Any) -> None:
        print("(JsonEngine pid=7) Traceback (most recent call last):")
        raise raised

    def shut_down() -> None:
        print("(JsonEngine pid=7) the engine stops: a very long story", flush=True)

    monkeypatch.setattr(program, "run", noisy)
    monkeypatch.setattr(program, "_shut_down_ray", shut_down)
    monkeypatch.setattr(Progress, "listen", lambda *_: 0)
    monkeypatch.setattr(Progress, "end", lambda *_: received)
    monkeypatch.setenv("DAYBREAK_BATCH", json.dumps(PLAIN))
    status = program.main()
    out, err = capfd.readouterr()
    *noise, last = (out + err).strip().splitlines()
    assert last.startswith(program.OWN_ERROR)
    return status, json.loads(last.removeprefix(program.OWN_ERROR)), noise


PLAIN = {
    "uid": "u",
    "input": {"uri": "file:///in", "format": "Auto"},
    "output": {"uri": "file:///out", "format": "JSONL"},
    "request": {"prompt": "a"},
    "engines": {"source": "m", "engine_args": {}, "bundle": {}, "resource": "r"},
}


def test_batch_error_is_the_last_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    status, message, noise = ending(monkeypatch, capfd, OSError("the claim is full\n\ud83d" + "x" * 9999))
    assert status == 1
    assert message["reason"] == "JobFailed"
    assert message["message"].startswith("OSError: the claim is full")
    assert len(json.dumps(message)) < 2500
    assert any("a very long story" in line for line in noise)


@pytest.mark.parametrize("received", [True, False])
def test_problem_is_logged_last_and_exit_status_is_1_if_not_received(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], received: bool
) -> None:
    status, message, _ = ending(monkeypatch, capfd, JobProblem("AccessDenied", "no right to it"), received)
    assert (status, message) == (
        0 if received else 1,
        {"reason": "AccessDenied", "message": "no right to it"},
    )


def test_ray_task_error_is_reported_as_its_cause(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class RayTaskError(Exception):
        """Error in Ray's form: a text with the whole traceback, and the cause."""

        cause = ValueError("the chat template is gone")

    _, message, _ = ending(monkeypatch, capfd, RayTaskError("ray::map()\n  File x\n" * 50))
    assert message["message"] == "ValueError: the chat template is gone"
