"""Embedded cluster with the few verbs that the tests use, and with retries."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import pytest
import yaml

from cluster import paths
from cluster.errors import ClusterError
from quickstart import install
from quickstart.target import NAMESPACE as INSTALLED
from quickstart.target import Target
from story.objects.reader import Reader

NAMESPACE = install.SAMPLE_NAMESPACE
MINUTE = 60.0
KUBELET_LINES = 60
"""Number of lines of the kubelet's log at the moment of a failure."""
T = TypeVar("T")


@dataclass(frozen=True)
class Kubernetes:
    """Embedded cluster with the few verbs that the tests use."""

    target: Target

    def get(self, kinds: str, *which: str, namespace: str = NAMESPACE) -> dict[str, Any] | None:
        """Return one object or list, or None; see `Reader.get`."""
        return self._reader.get(namespace, kinds, *which)

    def names(self, kinds: str, *which: str, namespace: str = NAMESPACE) -> list[str]:
        """Return the names of all objects of the given kinds, as kind/name; see `Reader.get`."""
        return self._reader.names(namespace, kinds, *which)

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.target.kubeconfig)

    def apply(self, manifest: dict[str, Any]) -> None:
        """Apply a manifest like a user, with validation of unknown fields."""
        text = yaml.safe_dump(manifest)
        self.target.kubectl(
            "apply", "-n", NAMESPACE, "--server-side", "--force-conflicts", "-f", "-", stdin=text
        )

    def patch(self, name: str, patch: dict[str, Any]) -> None:
        """Merge-patch an LLMService."""
        self.target.kubectl("patch", "-n", NAMESPACE, "llm", name, "--type=merge", "-p", json.dumps(patch))

    def delete(self, *arguments: str) -> None:
        """Delete objects and wait until they are gone."""
        self.target.kubectl("delete", "-n", NAMESPACE, *arguments, "--ignore-not-found", "--timeout=180s")

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """Return a condition of an LLMService, empty if it does not exist."""
        service = self.get("llm", name) or {}
        conditions = service.get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def wait_ready(self, name: str, minutes: float = 15) -> None:
        """Wait like a user: kubectl wait."""
        seconds = int(minutes * MINUTE)
        self.target.kubectl(
            "wait", "-n", NAMESPACE, "--for=condition=Ready", f"llm/{name}", f"--timeout={seconds}s"
        )

    def picture(self) -> str:
        """Return the state that explains a failure: objects, pods, events, and the last lines of logs."""
        gateways = ("--selector=app.kubernetes.io/name=daybreak-gateway", "--all-containers", "--prefix")
        rays = ("--selector=ray.io/node-type", "--all-containers", "--prefix")
        looks = (
            (
                "get",
                "llm,llmbatches,llmbenchmarks,modelservers,serveapplications,llmroutes,"
                "rayservices,rayjobs,rayclusters,pods",
                "--all-namespaces",
                "-o",
                "wide",
            ),
            ("describe", "-n", NAMESPACE, "llm"),
            ("describe", "-n", NAMESPACE, "pods"),
            ("logs", "-n", NAMESPACE, *gateways, "--tail=60"),
            ("logs", "-n", NAMESPACE, *rays, "--tail=40"),
            ("logs", "-n", INSTALLED, "deployment/daybreak", "--tail=80"),
        )
        pictures = [f"$ kubectl {' '.join(look)}\n{self._words(*look)}" for look in looks]
        kubelet = paths.CLUSTER / "logs" / "kubelet.log"
        if kubelet.exists():
            lines = kubelet.read_text(errors="replace").splitlines()[-KUBELET_LINES:]
            pictures.append("\n".join([f"$ tail {kubelet.name}", *lines, ""]))
        return "\n".join(pictures)

    def _words(self, *arguments: str) -> str:
        try:
            return self.target.kubectl(*arguments)
        except ClusterError as error:
            return f"{error}\n"


def eventually(look: Callable[[], T], good: Callable[[T], bool], minutes: float = 5, every: float = 1.0) -> T:
    """Call `look` until its result is good; fail with the last result."""
    deadline = time.monotonic() + minutes * MINUTE
    while True:
        observed = look()
        if good(observed):
            return observed
        if time.monotonic() > deadline:
            pytest.fail(f"not seen within {minutes} minutes; last seen: {observed!r}")
        time.sleep(every)
