"""The LLMBenchmark of the API tests."""

from daybreak.api.common import names
from tests.api.admin import Admin
from tests.api.owners import Subject
from tests.api.playing.kuberay import play_pod

TUNE = Subject(
    "LLMBenchmark",
    "tune",
    {
        "ServiceAccount": "benchmark.tune-sa",
        "NetworkPolicy": "benchmark.tune-ray",
        "Job": "tune-benchmark",
    },
    {
        "model": {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}},
        "load": {"clients": [8]},
        "sweep": [{"argument": "max_num_seqs", "values": [1, 2, 4]}],
    },
)


def play_its_pod(admin: Admin) -> None:
    """Create the benchmark's pod, at an address of this machine."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    play_pod(admin, "tune-pod", {**names.owner_labels("benchmark.tune")}, conditions=[ready])


def read_report(admin: Admin) -> str:
    """Return the order in the pod's environment."""
    pod = admin.get("Job", "tune-benchmark")["spec"]["template"]["spec"]
    [found] = [each["value"] for each in pod["containers"][0]["env"] if each["name"] == "DAYBREAK_BENCHMARK"]
    return str(found)
