"""The port that reports a job's progress: every report is JSON that the operator can parse."""

import urllib.request

import orjson

from daybreak_runtime.batch.progress import PATH, Progress


def test_unpaired_surrogate_in_error_is_replaced_in_report() -> None:
    progress = Progress("u")
    port = progress.listen(0)
    progress.errors(["cut \ud83d"])
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{PATH}", timeout=5) as answer:
        report = orjson.loads(answer.read())
    progress.close()
    assert report["errors"] == ["cut \ufffd"]
