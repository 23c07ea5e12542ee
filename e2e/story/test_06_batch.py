"""Batches from a table of prompts to a table of answers: killed, suspended, with a sleeping service.

The rows are in a folder of this machine, which is the node, behind a PVC.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from daybreak_runtime.batch.output import PART_SECONDS
from story.objects import pod_processes
from story.objects.kubernetes import NAMESPACE, Kubernetes, eventually
from story.objects.node_volume import node_volume

CLAIM = "batch-rows"
ROWS, TOO_LONG, NO_COLUMN = 2000, 20, 5
MODEL: dict[str, Any] = {
    "name": "tiny",
    "source": "file:///models/tiny",
    "accelerator": {"kind": "cpu"},
    "engine": {"args": {"max_model_len": 1024, "max_num_seqs": 32}},
    "resources": {"cpu": "300m"},
}
RUNTIME = {"head": {"resources": {"cpu": "300m", "memory": "3Gi"}}}
SERVICE_ROWS = 40
ENGINE = "JsonEngine"
"""Part of the title that Ray gives the process of a batch's engine."""
DRIVER = "daybreak_runtime.batch"
"""Part of the command of the job that reads and writes rows."""


@pytest.fixture(scope="module")
def rows(installed: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder behind the PVC."""
    folder = tmp_path_factory.mktemp("rows")
    with node_volume(installed, CLAIM, folder):
        try:
            yield folder
        finally:
            installed.delete("llmbatch", "--all")


def batch(name: str, **spec: Any) -> dict[str, Any]:
    """Return an LLMBatch."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMBatch",
        "metadata": {"name": name},
        "spec": {"runtime": RUNTIME, **spec},
    }


def lost(service: str) -> dict[str, Any]:
    """Return a batch with a missing input."""
    return batch(
        "lost",
        serviceRef={"name": service},
        input={"uri": f"pvc://{CLAIM}/absent.jsonl"},
        output={"uri": f"pvc://{CLAIM}/lost"},
        prompt="{{ text }}",
    )


def status(kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    """Return the status of a batch."""
    found: dict[str, Any] = (kubernetes.get("llmbatch", name) or {}).get("status") or {}
    return found


def ended(kubernetes: Kubernetes, name: str, minutes: float) -> dict[str, Any]:
    """Return the status of a batch at its end."""
    return eventually(
        lambda: status(kubernetes, name),
        lambda observed: observed.get("phase") in ("Succeeded", "Failed"),
        minutes=minutes,
    )


def lines(folder: Path, pattern: str) -> list[dict[str, Any]]:
    """Return every line of the matching files of a folder."""
    return [
        json.loads(line) for part in sorted(folder.glob(pattern)) for line in part.read_text().splitlines()
    ]


def pause_engine_after_an_answer(folder: Path, earlier: int = 0) -> int:
    """Wait for more answers than `earlier`, pause the engine, and return the number of written answers.

    The files are read, since the status follows them by seconds. If no part was written for PART_SECONDS, the
    next part is written with the next answer. The batch therefore cannot end before its engine is paused.
    """

    def answers() -> int:
        return sum(bool(row["response"]) for row in lines(folder, "part-*.jsonl"))

    eventually(answers, lambda count: count > earlier, minutes=6, every=0.05)
    assert pod_processes.pause(ENGINE) >= 1
    written = answers()
    assert written < ROWS - TOO_LONG - NO_COLUMN, (
        "all rows are answered, and nothing can be killed in the middle"
    )
    return written


def hold_next_engine(folder: Path) -> None:
    """Pause the next engine after a kill, and resume it when a part is due with its first answer.

    A fast machine would otherwise answer all rows before.
    """
    eventually(lambda: pod_processes.pause(ENGINE), bool, minutes=3, every=0.05)
    newest = max(part.stat().st_mtime for part in folder.glob("part-*.jsonl"))
    time.sleep(max(0.0, newest + PART_SECONDS + 1 - time.time()))
    assert pod_processes.resume(ENGINE) >= 1


def pod(kubernetes: Kubernetes, name: str, kind: str) -> str:
    """Return the head or a worker of a batch."""
    found = kubernetes.names(
        "pods",
        "-l",
        f"daybreak.dev/owner-kind=LLMBatch,daybreak.dev/owner-name={name},ray.io/node-type={kind}",
    )
    return found[0].removeprefix("pod/") if found else ""


def is_asleep(kubernetes: Kubernetes, name: str) -> bool:
    """Return True if a service sleeps."""
    return bool(((kubernetes.get("llm", name) or {}).get("status") or {}).get("sleepDepth"))


def test_each_row_is_written_once_after_engine_and_head_are_killed(
    kubernetes: Kubernetes, tiny: str, rows: Path
) -> None:
    """A worker's engine is killed and then the head is deleted, each in the middle of the batch."""
    # The sample releases its memory during the batch, and is asleep for the batch that wakes it.
    kubernetes.patch(tiny, {"spec": {"sleep": {"afterIdle": "5s", "depth": "Cluster"}}})
    with (rows / "in.jsonl").open("w") as file:
        for number in range(ROWS):
            row: dict[str, Any] = {"n": number, "question": f"What is {number}?"}
            if number % 100 == 50:
                row["question"] = "word " * 3000
            elif number % 400 == 7:
                del row["question"]
            file.write(json.dumps(row) + "\n")
    kubernetes.apply(
        batch(
            "night",
            model=MODEL,
            input={"uri": f"pvc://{CLAIM}/in.jsonl"},
            output={"uri": f"pvc://{CLAIM}/out"},
            prompt="Answer: {{ question }}",
            samplingParams={"max_tokens": 24, "ignore_eos": True, "temperature": 0},
        )
    )
    answers = pause_engine_after_an_answer(rows / "out")
    assert pod_processes.kill(ENGINE) >= 1
    hold_next_engine(rows / "out")
    pause_engine_after_an_answer(rows / "out", earlier=answers)
    kubernetes.delete("pod", pod(kubernetes, "night", "head"), "--wait=false")
    found = ended(kubernetes, "night", minutes=8)
    assert (found["phase"], found["progress"]) == ("Succeeded", f"{ROWS}/{ROWS}"), found
    written = lines(rows / "out", "part-*.jsonl")
    assert Counter(row["row_id"] for row in written) == Counter(range(ROWS))
    failed = {row["n"]: row["error"] for row in written if row["error"]}
    assert len(failed) == TOO_LONG + NO_COLUMN == found["rows"]["failed"]
    missing, too_long = "'question' is undefined", r"maximum (model|context) length (of|is) 1024"
    for number, why in failed.items():
        assert re.search(missing if number % 400 == 7 else too_long, why), (number, why)
    assert all(row["response"] for row in written if not row["error"])
    complete = next(each for each in found["conditions"] if each["type"] == "Complete")
    assert complete["status"] == "True"


def test_openai_batch_through_sleeping_service_resumes_after_suspension(
    kubernetes: Kubernetes, tiny: str, rows: Path
) -> None:
    eventually(lambda: is_asleep(kubernetes, tiny), bool, minutes=3)
    with (rows / "requests.jsonl").open("w") as file:
        for number in range(SERVICE_ROWS):
            message = [{"role": "user", "content": f"Say {number}"}]
            # One after the other, each long enough that the batch still runs when its first part is detected.
            body = {"messages": message, "max_tokens": 96, "ignore_eos": True}
            requested = {
                "custom_id": f"c{number}",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": body,
            }
            if number == 3:
                requested["url"] = "/v1/images"
            file.write(json.dumps(requested) + "\n")
    kubernetes.apply(
        batch(
            "day",
            serviceRef={"name": tiny, "concurrency": 1},
            input={"uri": f"pvc://{CLAIM}/requests.jsonl", "format": "OpenAI"},
            output={"uri": f"pvc://{CLAIM}/results", "format": "OpenAI"},
        )
    )
    # Read the parts directly: the status follows them by some seconds.
    parts = rows / "results" / "_daybreak" / "parts"
    eventually(lambda: len(lines(parts, "part-*.jsonl")), bool, minutes=6, every=0.05)
    # Until its pod is deleted, it would answer some hundred rows on a fast machine, which are all rows.
    assert pod_processes.pause(DRIVER) >= 1
    suspend = ("patch", "-n", NAMESPACE, "llmbatch", "day", "--type=merge", "-p")
    kubernetes.target.kubectl(*suspend, '{"spec": {"suspend": true}}')
    # The remaining rows need no further wake.
    kubernetes.patch(tiny, {"spec": {"sleep": {"afterIdle": "10m"}}})
    eventually(
        lambda: (status(kubernetes, "day").get("phase"), pod(kubernetes, "day", "head")),
        lambda observed: observed == ("Suspended", ""),
        minutes=3,
    )
    kept = [each["columns"]["custom_id"] for each in lines(parts, "part-*.jsonl")]
    assert 0 < len(kept) < SERVICE_ROWS
    kubernetes.target.kubectl(*suspend, '{"spec": {"suspend": false}}')
    found = ended(kubernetes, "day", minutes=6)
    # The batch of a test below: its head starts at the same time as the pods of the next one.
    kubernetes.apply(lost(tiny))
    kubernetes.patch(tiny, {"spec": {"sleep": {"afterIdle": "5s"}}})
    assert (found["phase"], found["progress"]) == ("Succeeded", f"{SERVICE_ROWS}/{SERVICE_ROWS}"), found
    # Answered rows were not sent again: each row is in one part, and the first parts are unchanged.
    by_part = [each["columns"]["custom_id"] for each in lines(parts, "part-*.jsonl")]
    assert by_part[: len(kept)] == kept
    assert Counter(by_part) == Counter(f"c{number}" for number in range(SERVICE_ROWS))
    results = lines(rows / "results", "output.jsonl")
    [error] = lines(rows / "results", "errors.jsonl")
    desired = {f"c{number}" for number in range(SERVICE_ROWS)} - {"c3"}
    assert {each["custom_id"] for each in results} == desired
    assert len(results) == len(desired)
    bodies = [ChatCompletion.model_validate(each["response"]["body"]) for each in results]
    assert all(each.choices[0].message.content for each in bodies)
    assert (error["custom_id"], error["error"]["code"]) == ("c3", "row_failed")


@pytest.mark.long
def test_embedding_batch_writes_vector_for_each_row(kubernetes: Kubernetes, tiny: str, rows: Path) -> None:
    (rows / "texts.csv").write_text("text\n" + "".join(f"number {n}\n" for n in range(100)))
    desired = batch(
        "vectors",
        model=MODEL,
        input={"uri": f"pvc://{CLAIM}/texts.csv"},
        output={"uri": f"pvc://{CLAIM}/vectors"},
        prompt="{{ text }}",
        task="embed",
    )
    kubernetes.apply(desired)
    found = ended(kubernetes, "vectors", minutes=6)
    assert (found["phase"], found["progress"]) == ("Succeeded", "100/100"), found
    written = lines(rows / "vectors", "part-*.jsonl")
    assert sorted(row["row_id"] for row in written) == list(range(100))
    assert {len(row["response"]) for row in written} == {256}


def test_missing_batch_input_sets_failed_condition(kubernetes: Kubernetes, tiny: str, rows: Path) -> None:
    """The job of a service needs only a head, so this is fast."""
    kubernetes.apply(lost(tiny))
    found = ended(kubernetes, "lost", minutes=4)
    failed = next(each for each in found["conditions"] if each["type"] == "Failed")
    assert (found["phase"], failed["reason"]) == ("Failed", "InputNotFound")
    assert f"pvc://{CLAIM}/absent.jsonl" in failed["message"]


def test_pods_of_finished_batch_are_deleted(kubernetes: Kubernetes, rows: Path) -> None:
    """Checked last: the pods take a while to end, and the other tests need not wait for that."""
    eventually(
        lambda: kubernetes.names(
            "pods", "-l", "daybreak.dev/owner-kind=LLMBatch,daybreak.dev/owner-name=night"
        ),
        lambda left: not left,
        minutes=3,
    )
