"""Custom pipeline behind the gateway: any path, sleep, and one request that wakes it."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from story.objects.kubernetes import NAMESPACE, Kubernetes, eventually
from story.test_05_sleep import base_url

SAMPLE = Path(__file__).parents[2] / "manifests" / "samples" / "application.yaml"
CODE, MANIFEST = yaml.safe_load_all(SAMPLE.read_text())
NAME: str = MANIFEST["metadata"]["name"]
OWNED = "rayservices,rayclusters,services,serviceaccounts,networkpolicies,poddisruptionbudgets,pods"


def status(kubernetes: Kubernetes) -> dict[str, Any]:
    """Return the status of the application."""
    found = kubernetes.get("serveapplication", NAME)
    assert found is not None
    return dict(found.get("status") or {})


def condition(kubernetes: Kubernetes, kind: str) -> dict[str, Any]:
    """Return one of the application's conditions, empty if it does not exist."""
    return next((each for each in status(kubernetes).get("conditions", ()) if each["type"] == kind), {})


def owned(kubernetes: Kubernetes, kinds: str = OWNED) -> list[str]:
    """Return the objects that belong to the application."""
    return kubernetes.names(
        kinds, "-l", f"daybreak.dev/owner-kind=ServeApplication,daybreak.dev/owner-name={NAME}"
    )


def ask(address: str, path: str, words: str) -> dict[str, Any]:
    """Send one request to the pipeline like any client, and return the answer."""
    request = urllib.request.Request(f"{address}{path}", data=words.encode(), method="POST")  # noqa: S310
    with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
        return found


def patch(kubernetes: Kubernetes, spec: dict[str, Any]) -> None:
    """Change the application's spec."""
    words = ("serveapplication", NAME, "--type=merge", "-p", json.dumps({"spec": spec}))
    kubernetes.target.kubectl("patch", "-n", NAMESPACE, *words)


@pytest.fixture(scope="module")
def address(installed: Kubernetes) -> str:
    """Apply the sample, wait until it is ready, and return its address."""
    installed.apply(CODE)
    installed.apply(MANIFEST)
    installed.target.kubectl(
        "wait", "-n", NAMESPACE, "--for=condition=Ready", f"serveapplication/{NAME}", "--timeout=600s"
    )
    return base_url(installed, NAME).removesuffix("/v1")


def test_application_answers_at_any_path_except_private_paths(kubernetes: Kubernetes, address: str) -> None:
    assert ask(address, "/first", "What a fine day") == {"path": "/first", "length": 4, "mood": "good"}
    assert ask(address, "/any/other?path", "and night")["mood"] == "plain"
    for private in ("/-/routes", "/%2D/healthz"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(address, private, "")
        with refused.value as answer:
            assert answer.code == 404


def test_request_wakes_application_that_sleeps_without_ray_cluster(
    kubernetes: Kubernetes, address: str
) -> None:
    patch(kubernetes, {"sleep": {"afterIdle": "3s", "depth": "Cluster"}})
    eventually(lambda: status(kubernetes)["phase"], lambda observed: observed == "Asleep", minutes=3)
    left = "rayservices,rayclusters,pods"
    eventually(lambda: owned(kubernetes, left), lambda found: not found, minutes=3)
    assert condition(kubernetes, "Ready")["status"] == "True", "asleep is healthy"
    assert ask(address, "/held", "What a fine day") == {"path": "/held", "length": 4, "mood": "good"}
    wake = status(kubernetes)["gate"]["models"][0]["wake"]
    assert wake["depth"] == "Cluster"
    assert wake["seconds"] > 0
    eventually(lambda: status(kubernetes)["phase"], lambda observed: observed == "Asleep", minutes=3)


def test_application_deletion_removes_its_objects(kubernetes: Kubernetes, address: str) -> None:
    kubernetes.delete("serveapplication", NAME)
    kubernetes.delete("configmap", CODE["metadata"]["name"])
    eventually(lambda: owned(kubernetes), lambda left: not left, minutes=3)
