"""The best max_num_seqs of an engine, found under load: real engines, one after another, in one pod."""

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
"""As many as make every value above theirs useless: what the stop rule is to find out by itself."""
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
    # Engines start one after the other, and a busy machine is half as quick a minute later: that must not
    # pass for a better setting. What batching brings for four clients is more.
    "stop": {"minNoise": 0.3},
    "sweep": [{"argument": "max_num_seqs", "values": VALUES}],
    "objective": {"maximize": "TokensPerSecond"},
    "output": {"uri": f"pvc://{CLAIM}/report"},
}


@pytest.fixture(scope="module")
def reports(installed: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder behind the claim."""
    folder = tmp_path_factory.mktemp("reports")
    with node_volume(installed, CLAIM, folder):
        try:
            yield folder
        finally:
            installed.delete("llmbenchmark", "--all")


def status(kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    """What the operator says of a benchmark."""
    found: dict[str, Any] = (kubernetes.get("llmbenchmark", name) or {}).get("status") or {}
    return found


@pytest.mark.long
def test_a_sweep_ends_by_its_rule_and_recommends_the_best_measured_step(
    kubernetes: Kubernetes, tiny: str, reports: Path
) -> None:
    # The sample gives its memory and its cores back meanwhile.
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
        lambda seen: seen.get("phase") in ("Succeeded", "Failed"),
        minutes=10,
    )
    assert found["phase"] == "Succeeded", found
    steps = found["steps"]
    # By jumps of two rungs: 4 is better than 1, and 16 no better than 4 for four clients.
    words = r"max_num_seqs: 16 is (no better|worse) than 4, beyond noise"
    assert re.fullmatch(words, found["stopReason"]), found
    # The baseline is the first rung, and is measured once.
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
    # Continuous batching pays, whatever this machine is: 4 clients, one at a time or all of them.
    assert best["settings"].get("max_num_seqs", 1) >= 4
    assert found["gain"]["ratio"] > 1.2
    assert found["gain"]["significant"] is True
    page = (reports / "report" / "report.html").read_text()
    assert f"max_num_seqs={best['settings']['max_num_seqs']}" in page
    assert (reports / "report" / "curve.svg").read_text().startswith("<svg")
    assert (reports / "report" / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_service_itself_is_measured_where_that_is_allowed(
    kubernetes: Kubernetes, tiny: str, reports: Path
) -> None:
    """Through its gateway, which wakes it; figures of each number of clients, and no engine of its own."""
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
        lambda seen: seen.get("phase") in ("Succeeded", "Failed"),
        minutes=8,
    )
    assert found["phase"] == "Succeeded", found
    assert [step["clients"] for step in found["steps"]] == [1, 4]
    assert all(step["requests"] > 0 for step in found["steps"]), found["steps"]


@pytest.mark.long
def test_the_pod_of_the_sweep_is_given_back(kubernetes: Kubernetes, tiny: str, reports: Path) -> None:
    """Looked at last: it takes its time to end, and the service need not wait for it."""
    eventually(
        lambda: kubernetes.names(
            "pods", "-l", "daybreak.dev/owner-kind=LLMBenchmark,daybreak.dev/owner-name=tune"
        ),
        lambda left: not left,
        minutes=2,
    )
