"""The ServeApplication of the API tests, and what plays around it: KubeRay, Ray Serve and gateways."""

import json
from pathlib import Path
from typing import Any

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.owners import Subject
from tests.api.playing.kuberay import PlayedKubeRay
from tests.api.playing.words import LONG_IDLE, write_whole

NAME = "pipeline"
CODE = "pipeline-code"
OWNER = f"application.{NAME}"
PIPELINE = Subject(
    "ServeApplication",
    NAME,
    {
        "ServiceAccount": f"{OWNER}-sa",
        "NetworkPolicy": f"{OWNER}-ray",
        "PodDisruptionBudget": f"{OWNER}-ray",
        "Service": NAME,
        "RayService": NAME,
    },
    {
        "importPath": "pipeline:build",
        "code": {"configMap": CODE},
        "deployments": [{"name": "Pipeline", "cpu": "100m"}, {"name": "Length", "cpu": "100m"}],
    },
)


def write_code(admin: Admin, text: str, **labels: str) -> None:
    """Have this in the ConfigMap with its code."""
    written = {"metadata": {"name": CODE, "labels": labels}, "data": {"pipeline.py": text}}
    if admin.get("ConfigMap", CODE):
        admin.merge("ConfigMap", CODE, written)
    else:
        admin.create({"apiVersion": "v1", "kind": "ConfigMap", **written})


class Player:
    """Plays KubeRay, Ray Serve and gateways for it.

    Args:
        admin: The test's hands in its namespace.
        traffic: Folder that says what gateways say.
    """

    def __init__(self, admin: Admin, traffic: Path) -> None:
        self.admin = admin
        self.kuberay = PlayedKubeRay(admin)
        self.cluster = ""
        write_code(admin, "first")
        self._traffic = traffic / f"{admin.namespace}.{OWNER}"

    def starts(self, suffix: str = "abcde") -> None:
        """Have KubeRay start the Ray cluster, and the application run."""
        self.comes_up(suffix)
        self.says("RUNNING")

    def comes_up(self, suffix: str = "abcde") -> None:
        """Have KubeRay start the Ray cluster."""
        eventually("a RayService", lambda: self.admin.get("RayService", NAME))
        self.cluster = self.kuberay.cluster(NAME, suffix)
        self.kuberay.head(NAME, self.cluster, OWNER)
        self.kuberay.worker(NAME, self.cluster, "cpu")

    def comes_beside(self, suffix: str, status: str, message: str = "") -> None:
        """Have KubeRay start a second Ray cluster, with this status in Ray Serve."""
        second = self.kuberay.cluster(NAME, suffix)
        self.kuberay.head(NAME, second, OWNER)
        self.kuberay.worker(NAME, second, "cpu")
        self.kuberay.pending(NAME, second, status, message)

    def rolls_out(self, phase: str) -> dict[str, Any]:
        """Wait until the rollout is in that phase. Returns the rollout's status."""

        def there() -> dict[str, Any] | None:
            found: dict[str, Any] = PIPELINE.status(self.admin).get("rollout") or {}
            return found if found.get("phase") == phase else None

        return eventually(f"rollout {phase}", there)

    def says(self, status: str, message: str = "") -> None:
        """Have Ray Serve report this status of the application."""
        self.kuberay.status(NAME, self.cluster, status, message)

    @property
    def bounds(self) -> tuple[int, int]:
        """Return the minimum and maximum number of pods of the running Ray cluster's worker group."""
        [group] = self.admin.get("RayCluster", self.cluster)["spec"]["workerGroupSpecs"]
        return group["minReplicas"], group["maxReplicas"]

    def goes(self, role: str = "") -> None:
        """Delete the pods of the Ray cluster, or those of a role.

        The garbage collector or Ray's autoscaler does this in a real cluster; no controller of this plane
        does.
        """
        of_role = f",{names.RAY_NODE_TYPE_LABEL}={role}" if role else ""
        for pod in self.admin.list("Pod", labelSelector=names.owner_selector(OWNER) + of_role):
            self.admin.delete("Pod", pod["metadata"]["name"])

    def traffic(self, **message: Any) -> None:
        """Set the gateways' reports from now on."""
        write_whole(self._traffic, json.dumps(message))

    def idle(self) -> None:
        """Report no requests for a long time."""
        self.traffic(idle=LONG_IDLE)

    def reaches(self, phase: str, gate: str) -> dict[str, Any]:
        """Wait until the status says this. Returns the gate."""

        def there() -> dict[str, Any] | None:
            report = PIPELINE.status(self.admin)
            found: dict[str, Any] = ((report.get("gate") or {}).get("models") or [{}])[0]
            return found if (report.get("phase"), found.get("state")) == (phase, gate) else None

        try:
            return eventually(f"{phase}, gate {gate}", there)
        except AssertionError as error:
            raise AssertionError(f"{error}; its status is {PIPELINE.status(self.admin)}") from None

    def awake(self, **spec: Any) -> dict[str, Any]:
        """Make it, and bring it up. Returns its gate."""
        self.admin.create(PIPELINE.manifest(**spec))
        self.starts()
        return self.reaches("Awake", "Open")
