"""A service that needs exactly the GPUs that there are, with everything around it that the operator sees."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daybreak.api.common import names
from tests.api.admin import Admin, Refused, eventually
from tests.api.playing.words import LONG_IDLE, PlayedWords
from tests.gpu.looks import TOLERATED, pods, service, small

NAME = "exact"
OLD, NEW = "ray:old", "ray:new"


class Exact(PlayedWords):
    """A service whose one model fits on the nodes of these tests alone, and takes them whole."""

    def __init__(self, admin: Admin, answers: Path, traffic: Path, name: str = NAME) -> None:
        super().__init__(answers / f"{admin.namespace}.{name}", traffic / f"{admin.namespace}.{name}")
        self.admin = admin
        self.name = name

    def create(self, depth: str) -> None:
        """Make it, and bring it up."""
        self.make({"afterIdle": "1s", "depth": depth})
        self.opens()

    def make(self, sleep: dict[str, str] | None, **model: Any) -> None:
        """Make it. Without `sleep` it never sleeps by itself."""
        manifest = service(self.name, small(nodeSelector={NAME: "yes"}, tolerations=TOLERATED) | model)
        manifest["spec"] |= {"runtime": {"image": OLD}} | ({} if sleep is None else {"sleep": sleep})
        self.answers()
        self.gateways()
        self.admin.create(manifest)

    def opens(self) -> None:
        """Wait until the gate admits requests."""
        self.reaches("open", lambda status: gate(status)["state"] == "Open")

    def gateways(self, **message: Any) -> None:
        """Set the gateways' reports from now on, and trigger the operator as a report does."""
        self.traffic(**message)
        if self.admin.get("LLMService", self.name) is not None:
            self.admin.merge(
                "LLMService", self.name, {"metadata": {"annotations": {"told": json.dumps(message)}}}
            )

    def changes(self) -> None:
        """Change a part of the spec that needs new pods."""
        changed = self.admin.merge("LLMService", self.name, {"spec": {"runtime": {"image": NEW}}})
        generation = changed["metadata"]["generation"]
        self.reaches("looked at", lambda status: status.get("observedGeneration") == generation)

    def sleeps(self, depth: str) -> None:
        """Report no requests, and wait for sleep."""
        self.gateways(idle=LONG_IDLE)
        self.reaches("asleep", lambda status: status.get("sleepDepth") == depth)
        self.eventually("no worker pod", lambda: not pods(self.admin, self.name))

    def wakes(self) -> None:
        """Report a request, and wait until the current spec answers it."""
        self.gateways(held=1)
        self.reaches("open", lambda status: gate(status)["state"] == "Open")
        self.gateways()

    def reaches(self, what: str, look: Callable[[dict[str, Any]], object]) -> None:
        """Wait until the status says something."""

        def there() -> object:
            status = self.admin.get("LLMService", self.name).get("status") or {}
            return "gate" in status and look(status)

        try:
            self.eventually(what, there)
        except AssertionError as error:
            status = self.admin.get("LLMService", self.name)["status"]
            raise AssertionError(f"{error}; its status: {json.dumps(status)}") from None

    def moment(self) -> str:
        """Return the resource version of the service, from which `passes` looks."""
        return str(self.admin.get("LLMService", self.name)["metadata"]["resourceVersion"])

    def passes(self, what: str, since: str, look: Callable[[dict[str, Any]], object]) -> None:
        """Wait until a status since a moment matched, even if it was replaced at once.

        A poll of the latest status can miss a state that lasts for a moment; a watch reports each of them.

        Args:
            what: The state, for the error.
            since: What `moment` returned.
            look: Whether a status matches.
        """
        only = {"fieldSelector": f"metadata.name={self.name}"}

        def passed() -> bool:
            events = self.admin.events("LLMService", since, 1, **only)
            statuses = [event["object"].get("status") or {} for event in events]
            return any("gate" in status and look(status) for status in statuses)

        self.eventually(what, passed)

    def eventually(self, what: str, look: Callable[[], object]) -> None:
        """Wait for something, while Ray's autoscaler does its part for every service."""

        def there() -> object:
            self._scale_down()
            return look()

        eventually(what, there)

    @property
    def is_open(self) -> bool:
        """Return True if the gate admits requests."""
        status = self.admin.get("LLMService", self.name).get("status") or {}
        return "gate" in status and gate(status)["state"] == "Open"

    def _scale_down(self) -> None:
        # Pods before clusters: one that is listed was made before its cluster was looked at, so not by a wake
        # that came in between. KubeRay would wait minutes for a pod that is deleted before it has been seen
        # (`scale_expectations.go`: for 30 s, and then for the next event).
        found = [pod for pod in self.admin.list("Pod") if "ray.io/group" in pod["metadata"].get("labels", {})]
        none = {
            (cluster["metadata"]["name"], group["groupName"])
            for cluster in self.admin.list("RayCluster")
            for group in cluster["spec"].get("workerGroupSpecs", ())
            if group["maxReplicas"] == 0
        }
        for pod in found:
            labels = pod["metadata"]["labels"]
            if (labels[names.RAY_CLUSTER_LABEL], labels["ray.io/group"]) in none:
                with contextlib.suppress(Refused):
                    self.admin.delete("Pod", pod["metadata"]["name"])


def gate(status: dict[str, Any]) -> dict[str, Any]:
    gate: dict[str, Any] = status["gate"]["models"][0]
    return gate


def image_of(pod: Any) -> str:
    return str(pod["spec"]["containers"][0]["image"])
