"""Weights that a Job copies into a PVC: the real Job, kubelet and Ray image, and a local fake S3.

The service is kept asleep, so that no model has to start for it.
"""

import filecmp
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.images import catalog, tiny_model
from cluster.node import network
from story.objects.fake_s3 import ACCESS_KEY, REGION, SECRET_KEY, fake_s3
from story.objects.kubernetes import Kubernetes, eventually
from story.objects.node_volume import node_volume
from story.test_04_heads import before_gpus

NAME = "cached"
BUCKET = "weights"
CLAIM = "cached-weights"
KINDS = "jobs,rayservices,rayclusters,services,serviceaccounts,networkpolicies,poddisruptionbudgets"


def service(endpoint: str, prefix: str) -> dict[str, Any]:
    """Return the LLMService, with weights from a prefix in the bucket."""
    variables = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }
    model = {
        "name": "tiny",
        "source": f"s3://{BUCKET}/{prefix}",
        "cache": {"claimName": CLAIM},
        "accelerator": {"kind": "cpu"},
    }
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": NAME},
        "spec": {
            "models": [model],
            "state": "Asleep",
            "sleep": {"depth": "Cluster"},
            "runtime": {"env": [{"name": name, "value": value} for name, value in variables.items()]},
        },
    }


@pytest.fixture(scope="module", autouse=True)
def head_starts(installed: Kubernetes, tiny_manifest: dict[str, Any]) -> None:
    """Start the head of the next file during these tests, which leave the machine idle."""
    installed.apply(before_gpus(tiny_manifest))


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the bucket."""
    folder = tmp_path_factory.mktemp("s3")
    tiny_model.write(folder / BUCKET / "models" / "tiny-2", catalog.MODELS["tiny-2"])
    return folder


@pytest.fixture(scope="module")
def endpoint(bucket: Path) -> Iterator[str]:
    """Yield the address of a fake S3 with that bucket."""
    with fake_s3(network.NODE_ADDRESS, bucket) as url:
        yield url


@pytest.fixture(scope="module")
def kept(installed: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder behind the PVC."""
    folder = tmp_path_factory.mktemp("claim")
    with node_volume(installed, CLAIM, folder):
        try:
            yield folder
        finally:
            installed.delete("llm", NAME)


def cache(kubernetes: Kubernetes) -> dict[str, Any]:
    """Return the state of the copy in the status."""
    models = ((kubernetes.get("llm", NAME) or {}).get("status") or {}).get("models") or [{}]
    found: dict[str, Any] = models[0].get("cache") or {}
    return found


def test_missing_weights_set_stalled_condition(kubernetes: Kubernetes, kept: Path, endpoint: str) -> None:
    kubernetes.apply(service(endpoint, "models/no-such-model"))
    eventually(lambda: cache(kubernetes).get("phase"), lambda phase: phase == "Failed", minutes=4)
    stalled = kubernetes.condition(NAME, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "CacheFailed")
    assert f"there are no files below s3://{BUCKET}/models/no-such-model" in stalled["message"]


def test_weights_are_copied_and_copy_job_is_deleted(
    kubernetes: Kubernetes, kept: Path, endpoint: str, bucket: Path
) -> None:
    kubernetes.apply(service(endpoint, "models/tiny-2"))
    found = eventually(
        lambda: cache(kubernetes), lambda observed: observed.get("phase") == "Complete", minutes=4
    )
    there, here = bucket / BUCKET / "models" / "tiny-2", kept / found["path"]
    files = sorted(path.name for path in there.iterdir())
    assert found["bytes"] == sum(path.stat().st_size for path in there.iterdir())
    assert filecmp.cmpfiles(there, here, files, shallow=False) == (files, [], [])
    assert kubernetes.condition(NAME, "Stalled")["status"] == "False"
    eventually(
        lambda: kubernetes.names(
            "jobs", "-l", f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={NAME}"
        ),
        lambda left: not left,
    )


def test_copy_of_weights_creates_no_worker_pod(kubernetes: Kubernetes, kept: Path) -> None:
    workers = kubernetes.names(
        "pods",
        "-l",
        f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={NAME},ray.io/node-type=worker",
    )
    assert workers == []


def test_service_deletion_keeps_pvc(kubernetes: Kubernetes, kept: Path) -> None:
    kubernetes.delete("llm", NAME)
    eventually(
        lambda: kubernetes.names(
            KINDS, "-l", f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={NAME}"
        ),
        lambda left: not left,
    )
    assert kubernetes.get("pvc", CLAIM)
