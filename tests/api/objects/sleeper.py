"""A service that sleeps and wakes, with everything around it that the operator sees: played."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.objects.llmservice import tiny
from tests.api.playing.kuberay import PlayedKubeRay
from tests.api.playing.words import PlayedWords

NAME = "tiny"
GATEWAY = {"GATEWAY_IMAGE": "daybreak-gateway:1"}
"""The setting that brings gateways."""


class Sleeper(PlayedWords):
    """The LLMService `tiny` in a namespace of the test's own.

    Args:
        admin: The test's hands there.
        answers: Folder that says which services answer; see `playing/operator.py`.
        traffic: Folder that says what gateways say.
    """

    def __init__(self, admin: Admin, answers: Path, traffic: Path) -> None:
        name = f"{admin.namespace}.{NAME}"
        super().__init__(answers / name, traffic / name)
        self.admin = admin
        self.kuberay = PlayedKubeRay(admin)
        self.cluster = ""

    def create(self, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Make the LLMService."""
        manifest = tiny(NAME, **spec)
        manifest["metadata"]["annotations"].update(annotations or {})
        self.admin.create(manifest)

    def awake(self, **spec: Any) -> int:
        """Make it and bring it up. Returns the epoch of its open gate."""
        self.create(**spec)
        self.starts()
        self.answers()
        return self.opened()

    def starts(self, suffix: str = "abcde") -> None:
        """Have KubeRay start a Ray cluster that serves."""
        eventually("a RayService", lambda: self.admin.get("RayService", NAME))
        self.cluster = self.kuberay.cluster(NAME, suffix)
        self.kuberay.head(NAME, self.cluster)
        self.kuberay.worker(NAME, self.cluster, names.worker_group(NAME))
        self.kuberay.status(NAME, self.cluster)

    def status(self) -> dict[str, Any]:
        """Return the service's status."""
        found: dict[str, Any] = self.admin.get("LLMService", NAME).get("status") or {}
        return found

    def gates(self) -> list[dict[str, Any]]:
        """Return the gates of the service's models."""
        return list((self.status().get("gate") or {}).get("models") or ())

    def gate(self) -> str:
        """State of its first model's gate."""
        return str(next(iter(self.gates()), {}).get("state"))

    def wake(self) -> dict[str, Any]:
        """Return the last wake of the first model, or an empty mapping if there was none."""
        return dict(self.gates()[0].get("wake") or {})

    def opened(self) -> int:
        """Wait until the gate is open and the models answer. Returns the gate's epoch."""
        return self.reaches("Awake", "Open", None)

    def reaches(self, phase: str, gate: str, asleep: str | None) -> int:
        """Wait until the status says this. Returns the gate's epoch."""

        def there() -> bool:
            found = self.status()
            gates = (found.get("gate") or {}).get("models") or [{}]
            message = found.get("phase"), gates[0].get("state"), found.get("sleepDepth")
            return message == (phase, gate, asleep)

        try:
            eventually(f"{phase}, gate {gate}, asleep {asleep}", there)
        except AssertionError as error:
            raise AssertionError(f"{error}; its status is {self.status()}") from None
        return int(self.gates()[0]["epoch"])

    def falls_asleep(self, asleep: str = "Workers") -> int:
        """Report no requests for long: wait until the service sleeps, with the objects of a sleeping one."""
        self.idle()
        epoch = self.reaches("Asleep", "Closed", asleep)
        if asleep == "Workers":
            self.scaled((0, 0))
        else:
            eventually("no RayService", lambda: self.admin.get("RayService", NAME) is None)
        return epoch

    def scaled(self, bounds: tuple[int, int]) -> None:
        """Wait until Serve and KubeRay have received these numbers of replicas."""
        eventually(
            f"Serve is told of at least {bounds[0]}", lambda: min_replicas(self._ray_service()) == bounds[0]
        )
        eventually(
            f"the RayCluster's groups have {bounds}",
            lambda: group_bounds(self.admin.get("RayCluster", self.cluster)) == {bounds},
        )

    def _ray_service(self) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get("RayService", NAME)
        return found


def min_replicas(ray_service: Mapping[str, Any]) -> int:
    """Return the minimum number of replicas of the model in Serve's configuration."""
    config = yaml.safe_load(ray_service["spec"]["serveConfigV2"])
    name = names.serve_deployment(NAME)
    deployments = config["applications"][0]["deployments"]
    return int(
        next(each["autoscaling_config"]["min_replicas"] for each in deployments if each["name"] == name)
    )


def group_bounds(ray_cluster: Mapping[str, Any]) -> set[tuple[int, int]]:
    """Return the bounds of the worker groups, as KubeRay's autoscaler reads them."""
    return {(group["minReplicas"], group["maxReplicas"]) for group in ray_cluster["spec"]["workerGroupSpecs"]}
