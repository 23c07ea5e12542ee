"""A table of prompts in, a table of answers out: killed, suspended, through a service that sleeps.

The rows lie in a folder of this machine, which is the node, behind a claim.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
KILL_ENGINE = """
import os, psutil, signal
running = [(each.pid, " ".join(each.info["cmdline"] or [])) for each in psutil.process_iter(["cmdline"])]
found = [pid for pid, command in running if "JsonEngine" in command and pid != os.getpid()]
for pid in found:
    os.kill(pid, signal.SIGKILL)
print(len(found))
"""
"""Run in a worker pod. Its own text names the engine too."""


@pytest.fixture(scope="module")
def rows(installed: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder behind the claim."""
    folder = tmp_path_factory.mktemp("rows")
    with node_volume(installed, CLAIM, folder):
        try:
            yield folder
        finally:
            installed.delete("llmbatch", "--all")


def batch(name: str, **spec: Any) -> dict[str, Any]:
    """An LLMBatch."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMBatch",
        "metadata": {"name": name},
        "spec": {"runtime": RUNTIME, **spec},
    }


def status(kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    """What the operator says of a batch."""
    found: dict[str, Any] = (kubernetes.get("llmbatch", name) or {}).get("status") or {}
    return found


def ended(kubernetes: Kubernetes, name: str, minutes: float) -> dict[str, Any]:
    """The status of a batch at its end."""
    return eventually(
        lambda: status(kubernetes, name),
        lambda seen: seen.get("phase") in ("Succeeded", "Failed"),
        minutes=minutes,
    )


def done(kubernetes: Kubernetes, name: str) -> int:
    """How many of its rows are written."""
    return int((status(kubernetes, name).get("rows") or {}).get("done") or 0)


def lines(folder: Path, pattern: str) -> list[dict[str, Any]]:
    """Every line of the files of a folder."""
    return [
        json.loads(line) for part in sorted(folder.glob(pattern)) for line in part.read_text().splitlines()
    ]


def pod(kubernetes: Kubernetes, name: str, kind: str) -> str:
    """The head or a worker of a batch."""
    found = kubernetes.names("pods", "-l", f"daybreak.dev/service=batch.{name},ray.io/node-type={kind}")
    return found[0].removeprefix("pod/") if found else ""


def is_asleep(kubernetes: Kubernetes, name: str) -> bool:
    """Whether a service sleeps."""
    return bool(((kubernetes.get("llm", name) or {}).get("status") or {}).get("asleep"))


def test_every_row_leaves_once_whatever_is_killed(kubernetes: Kubernetes, tiny: str, rows: Path) -> None:
    """A worker's engine is killed and then the head is deleted, each in the middle."""
    # The sample gives its memory back meanwhile, and is asleep for the batch that wakes it.
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
    eventually(lambda: done(kubernetes, "night"), lambda count: count > NO_COLUMN + TOO_LONG, minutes=6)
    killed = kubernetes.target.kubectl(
        "exec", "-n", NAMESPACE, pod(kubernetes, "night", "worker"), "-c", "ray-worker", "--",
        "python", "-c", KILL_ENGINE,
    )  # fmt: skip
    assert int(killed) >= 1
    before = done(kubernetes, "night")
    assert before < ROWS
    eventually(lambda: done(kubernetes, "night"), lambda count: count > before, minutes=5)
    kubernetes.delete("pod", pod(kubernetes, "night", "head"), "--wait=false")
    found = ended(kubernetes, "night", minutes=8)
    assert (found["phase"], found["progress"]) == ("Succeeded", f"{ROWS}/{ROWS}"), found
    written = lines(rows / "out", "part-*.jsonl")
    assert Counter(row["row_id"] for row in written) == Counter(range(ROWS))
    failed = {row["n"]: row["error"] for row in written if row["error"]}
    assert len(failed) == TOO_LONG + NO_COLUMN == found["rows"]["failed"]
    assert all(("question" in failed[n]) == (n % 400 == 7) for n in failed)
    assert all(row["response"] for row in written if not row["error"])
    complete = next(each for each in found["conditions"] if each["type"] == "Complete")
    assert complete["status"] == "True"


def test_openais_files_through_a_service_that_sleeps(kubernetes: Kubernetes, tiny: str, rows: Path) -> None:
    eventually(lambda: is_asleep(kubernetes, tiny), bool, minutes=3)
    with (rows / "requests.jsonl").open("w") as file:
        for number in range(SERVICE_ROWS):
            body = {"messages": [{"role": "user", "content": f"Say {number}"}], "max_tokens": 4}
            asked = {"custom_id": f"c{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
            if number == 3:
                asked["url"] = "/v1/images"
            file.write(json.dumps(asked) + "\n")
    kubernetes.apply(
        batch(
            "day",
            serviceRef={"name": tiny},
            input={"uri": f"pvc://{CLAIM}/requests.jsonl", "format": "OpenAI"},
            output={"uri": f"pvc://{CLAIM}/results", "format": "OpenAI"},
        )
    )
    found = ended(kubernetes, "day", minutes=6)
    assert found["phase"] == "Succeeded", found
    results = lines(rows / "results", "output.jsonl")
    [error] = lines(rows / "results", "errors.jsonl")
    wanted = {f"c{number}" for number in range(SERVICE_ROWS)} - {"c3"}
    assert {each["custom_id"] for each in results} == wanted
    assert len(results) == len(wanted)
    assert all(each["response"]["body"]["choices"][0]["message"]["content"] for each in results)
    assert (error["custom_id"], error["error"]["code"]) == ("c3", "row_failed")


def test_embeddings_of_a_batch_that_was_suspended(kubernetes: Kubernetes, tiny: str, rows: Path) -> None:
    (rows / "texts.csv").write_text("text\n" + "".join(f"number {n}\n" for n in range(100)))
    wanted = batch(
        "vectors",
        model=MODEL,
        input={"uri": f"pvc://{CLAIM}/texts.csv"},
        output={"uri": f"pvc://{CLAIM}/vectors"},
        prompt="{{ text }}",
        task="embed",
    )
    kubernetes.apply(wanted)
    eventually(lambda: pod(kubernetes, "vectors", "head"), bool, minutes=2)
    suspend = ("patch", "-n", NAMESPACE, "llmbatch", "vectors", "--type=merge", "-p")
    kubernetes.target.kubectl(*suspend, '{"spec": {"suspend": true}}')
    eventually(
        lambda: (status(kubernetes, "vectors").get("phase"), pod(kubernetes, "vectors", "head")),
        lambda seen: seen == ("Suspended", ""),
        minutes=3,
    )
    kubernetes.target.kubectl(*suspend, '{"spec": {"suspend": false}}')
    found = ended(kubernetes, "vectors", minutes=6)
    assert (found["phase"], found["progress"]) == ("Succeeded", "100/100"), found
    written = lines(rows / "vectors", "part-*.jsonl")
    assert sorted(row["row_id"] for row in written) == list(range(100))
    assert {len(row["response"]) for row in written} == {256}


def test_bad_input_ends_in_a_clear_condition(kubernetes: Kubernetes, tiny: str, rows: Path) -> None:
    """The job of a service needs a head only, so this is quick."""
    kubernetes.apply(
        batch(
            "lost",
            serviceRef={"name": tiny},
            input={"uri": f"pvc://{CLAIM}/absent.jsonl"},
            output={"uri": f"pvc://{CLAIM}/lost"},
            prompt="{{ text }}",
        )
    )
    found = ended(kubernetes, "lost", minutes=4)
    failed = next(each for each in found["conditions"] if each["type"] == "Failed")
    assert (found["phase"], failed["reason"]) == ("Failed", "InputMissing")
    assert f"pvc://{CLAIM}/absent.jsonl" in failed["message"]


def test_the_pods_of_the_first_are_given_back(kubernetes: Kubernetes, rows: Path) -> None:
    """Looked at last: they take their time to end, and the others need not wait for it."""
    eventually(
        lambda: kubernetes.names("pods", "-l", "daybreak.dev/service=batch.night"),
        lambda left: not left,
        minutes=3,
    )
