"""Search for an engine's best max_num_seqs under load: real engines, one after another, in one pod."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from story.objects.kubernetes import NAMESPACE, Kubernetes, eventually
from story.objects.node_volume import node_volume

CLAIM = "benchmark-reports"
VALUES = [1, 2, 4, 8, 16]
CLIENTS = 4
"""Number of clients. A larger max_num_seqs is useless, which the stop rule must detect by itself."""
SPEC: dict[str, Any] = {
    "model": {
        "name": "tiny",
        "source": "file:///models/tiny",
        "accelerator": {"kind": "cpu"},
        "engine": {"args": {"max_model_len": 1024, "max_num_seqs": 1}},
        "resources": {"cpu": "300m"},
    },
    "load": {
        "clients": [CLIENTS],
        "promptTokens": {"mean": 60, "max": 200},
        "outputTokens": {"mean": 40, "max": 120},
        "windowDuration": "3s",
        "windowCount": 3,
        "warmupDuration": "1s",
    },
    # Engines start one after the other, and a busy machine may be half as fast a minute later. That must
    # not count as a better setting. The gain of batching for four clients is larger.
    "stop": {"minNoise": 0.3},
    "sweep": [{"argument": "max_num_seqs", "values": VALUES}],
    "objective": {"maximize": "TokensPerSecond"},
    "output": {"uri": f"pvc://{CLAIM}/report"},
}


@pytest.fixture(scope="module")
def reports(installed: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder behind the PVC."""
    folder = tmp_path_factory.mktemp("reports")
    with node_volume(installed, CLAIM, folder):
        try:
            yield folder
        finally:
            installed.delete("llmbenchmark", "--all")


def status(kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    """Return the status of a benchmark."""
    found: dict[str, Any] = (kubernetes.get("llmbenchmark", name) or {}).get("status") or {}
    return found


@pytest.mark.long
def test_a_sweep_ends_by_its_rule_and_recommends_the_best_measured_step(
    kubernetes: Kubernetes, tiny: str, reports: Path
) -> None:
    # The sample releases its memory and its CPUs for the benchmark.
    kubernetes.patch(tiny, {"spec": {"sleep": {"afterIdle": "5s", "depth": "Cluster"}}})
    eventually(lambda: (kubernetes.get("llm", tiny) or {})["status"].get("sleepDepth"), bool, minutes=3)
    kubernetes.apply(
        {
            "apiVersion": "daybreak.dev/v1alpha1",
            "kind": "LLMBenchmark",
            "metadata": {"name": "tune"},
            "spec": SPEC,
        }
    )
    eventually(lambda: status(kubernetes, "tune").get("steps"), bool, minutes=5)
    shown = kubernetes.target.kubectl("get", "-n", NAMESPACE, "llmbench", "tune")
    assert "Running" in shown
    found = eventually(
        lambda: status(kubernetes, "tune"),
        lambda observed: observed.get("phase") in ("Succeeded", "Failed"),
        minutes=10,
    )
    assert found["phase"] == "Succeeded", found
    steps = found["steps"]
    # In jumps of two rungs: 4 is better than 1, and 16 is no better than 4 for four clients.
    words = r"max_num_seqs: 16 is (no better|worse) than 4, beyond noise"
    assert re.fullmatch(words, found["stopReason"]), found
    # The baseline is the first rung and is measured once.
    assert steps[0]["settings"] == {}
    tried = [step["settings"].get("max_num_seqs", 1) for step in steps]
    assert len(set(tried)) == len(tried)
    assert tried[:3] == [1, 4, 16]
    assert set(tried) <= set(VALUES)
    for step in steps:
        assert step["errors"] == 0, step
        assert step["requests"] > 0
        assert step["clients"] == CLIENTS
        assert step["running"] <= step["settings"].get("max_num_seqs", 1)
        assert 0 < step["ttft"]["p50"] <= step["ttft"]["p99"] <= step["latency"]["p99"]
        assert 0 < step["kvCache"] <= 1
    best = max(steps, key=lambda step: step["tokensPerSecond"])
    assert found["best"]["settings"] == best["settings"] == found["recommended"]
    # Continuous batching has a gain on every machine: 4 clients, one at a time or all of them.
    assert best["settings"].get("max_num_seqs", 1) >= 4
    assert found["gain"]["ratio"] > 1.2
    assert found["gain"]["significant"] is True
    page = (reports / "report" / "report.html").read_text()
    assert f"max_num_seqs={best['settings']['max_num_seqs']}" in page
    assert (reports / "report" / "curve.svg").read_text().startswith("<svg")
    assert (reports / "report" / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_benchmark_in_service_mode_measures_existing_service(
    kubernetes: Kubernetes, tiny: str, reports: Path
) -> None:
    """The gateway wakes the service; figures are per number of clients, and no engine is started."""
    kubernetes.apply(
        {
            "apiVersion": "daybreak.dev/v1alpha1",
            "kind": "LLMBenchmark",
            "metadata": {"name": "look"},
            "spec": {
                "serviceRef": {"name": tiny, "mode": "Service"},
                "load": {
                    "clients": [1, 4],
                    "promptTokens": {"mean": 30, "max": 60},
                    "outputTokens": {"mean": 8, "max": 20},
                    "windowDuration": "4s",
                    "windowCount": 2,
                    "warmupDuration": "1s",
                },
                "runtime": {"head": {"resources": {"cpu": "300m", "memory": "1Gi"}}},
            },
        }
    )
    found = eventually(
        lambda: status(kubernetes, "look"),
        lambda observed: observed.get("phase") in ("Succeeded", "Failed"),
        minutes=8,
    )
    assert found["phase"] == "Succeeded", found
    assert [step["clients"] for step in found["steps"]] == [1, 4]
    assert all(step["requests"] > 0 for step in found["steps"]), found["steps"]


@pytest.mark.long
def test_pod_of_finished_sweep_is_deleted(kubernetes: Kubernetes, tiny: str, reports: Path) -> None:
    """Checked last: the pod takes a while to end, and the service need not wait for that."""
    eventually(
        lambda: kubernetes.names(
            "pods", "-l", "daybreak.dev/owner-kind=LLMBenchmark,daybreak.dev/owner-name=tune"
        ),
        lambda left: not left,
        minutes=2,
    )
