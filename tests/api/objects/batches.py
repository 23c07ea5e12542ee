"""The LLMBatch of the API tests, and who plays its KubeRay."""

from typing import Any

from daybreak.api.common import names
from tests.api.admin import Admin
from tests.api.owners import Subject
from tests.api.playing.kuberay import play_pod

NIGHT = Subject(
    "LLMBatch",
    "night",
    {"ServiceAccount": "batch.night-sa", "NetworkPolicy": "batch.night-ray", "RayJob": "night"},
    {
        "model": {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}},
        "input": {"uri": "pvc://rows/in.jsonl"},
        "output": {"uri": "pvc://rows/out"},
        "prompt": "{{ question }}",
    },
)


def kuberay_says(admin: Admin, **message: Any) -> None:
    """Write the values that KubeRay writes into the status of the RayJob."""
    admin.merge("RayJob", "night", {"status": message}, subresource="status")


def play_head(admin: Admin) -> None:
    """The head pod, at an address of this machine."""
    labels = {
        **names.owner_labels(names.of_owner("LLMBatch", "night")),
        names.RAY_NODE_TYPE_LABEL: "head",
        names.RAY_CLUSTER_LABEL: "night-abcde",
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    play_pod(admin, "night-head", labels, conditions=[ready])


def read_report(admin: Admin) -> str:
    """Return the order in the head's environment."""
    job = admin.get("RayJob", "night")
    pod = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    [found] = [each["value"] for each in pod["containers"][0]["env"] if each["name"] == "DAYBREAK_BATCH"]
    return str(found)
