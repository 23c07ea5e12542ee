"""Step-by-step simulation of an application with stored revisions, of KubeRay, and of the decisions."""

from datetime import timedelta
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.config_map import Content
from daybreak.gates.traffic import Traffic
from daybreak.kinds.serveapplication.decide.cluster_bounds import cluster_bounds
from daybreak.kinds.serveapplication.decide.plan import make_plan, objects
from daybreak.kinds.serveapplication.decide.ray_clusters import redundant_cluster
from daybreak.kinds.serveapplication.functions import view_of
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.manifests.plan import Plan
from daybreak.rollouts.machine import SETTLE
from daybreak.rollouts.revisions import Revision
from tests.unit.live import beside
from tests.unit.serveapplication.applications import ASKED, NOW, PLATFORM, observe
from tests.unit.serveapplication.decision import Decision, decide

FIRST, SECOND = "pipeline-abcde", "pipeline-second"
BROKEN = "Deploying app 'app' failed with exception:\nModuleNotFoundError: No module named 'pipelines'"
OWNER = {"controller": True, "kind": "ServeApplication", "name": "pipeline", "uid": "u-1"}
MARKS = (
    names.WISHES_ANNOTATION,
    names.CODE_ANNOTATION,
    names.CONFIGURATION_ANNOTATION,
    names.RAY_CLUSTER_ANNOTATION,
)


def said_by_serve(status: str, message: str = "") -> dict[str, Any]:
    """Return the status of the application from Ray Serve."""
    deployments = {name: {"status": "HEALTHY", "message": ""} for name in ("Pipeline", "Length")}
    app = {"status": status, "message": message, "serveDeploymentStatuses": deployments}
    return {"applicationStatuses": {"app": app}}


def _differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    message = one["metadata"]["annotations"], other["metadata"]["annotations"]
    return bool(one["spec"] != other["spec"] or message[0] != message[1])


class Rolling:
    """An application in a cluster where every event is explicit."""

    def __init__(self, code: str | None = "one", **spec: Any) -> None:
        files: dict[str, Any] = {"code": {"configMap": "pipeline-code"}} if code is not None else {}
        self.spec = {**files, **spec}
        self.contents = {"pipeline-code": Content(digest=code)} if code is not None else {}
        self.annotations: dict[str, str] = {}
        self.traffic: Traffic | None = ASKED
        self.more: dict[str, Any] = {}
        self.now = NOW
        self.ray: dict[str, Any] | None = None
        self.clusters: list[dict[str, Any]] = []
        self.cluster = ""
        self.status: dict[str, Any] | None = None
        self.kept: tuple[Revision, ...] = ()
        self.plan = Plan((), (), (), leaving=False)

    def look(self) -> Observed:
        """Return the current observation."""
        return observe(
            self.status,
            self.ray,
            traffic=self.traffic,
            now=self.now,
            spec=self.spec,
            code=self.contents,
            kept=self.kept,
            annotations=self.annotations,
            ray_clusters=self.clusters,
            **self.more,
        )

    async def step(self, seconds: float = 0) -> Decision:
        """Advance the time, decide, write the status, and apply the plan."""
        self.now += timedelta(seconds=seconds)
        one = self.look()
        view = view_of(one)
        owned = objects(view, PLATFORM)
        self.plan = make_plan(view, owned, beside(owned, self.ray))
        desired = [each.desired for each in self.plan.targets if each.desired["kind"] == "RayService"]
        if not desired:
            self.ray, self.clusters = None, []
        elif self.ray is None or _differ(self.ray, desired[0]):
            generation = self.ray["metadata"]["generation"] + 1 if self.ray is not None else 1
            metadata = {**desired[0]["metadata"], "generation": generation, "ownerReferences": [OWNER]}
            status = self.ray["status"] if self.ray is not None else {}
            self.ray = {**desired[0], "metadata": metadata, "status": status}
        decision = decide(self.look())
        self.status = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.kept = one.history.revisions if one.history is not None else self.kept
        return decision

    async def steps(self, seconds: float = 0) -> Decision:
        """Reconcile until the status stays the same, and return the last decision."""
        await self.step(seconds)
        for _ in range(10):
            before = self.status
            decision = await self.step()
            if self.status == before:
                return decision
        raise AssertionError(f"it finds no rest: {self.status}")

    def serves(self, cluster: str = FIRST, status: str = "RUNNING", message: str = "") -> None:
        """Simulate that KubeRay has applied the RayService in this cluster, and deleted all others."""
        self.clusters = [each for each in self.clusters if each["metadata"]["name"] == cluster]
        self.cluster = cluster
        self._made(cluster)
        self._says({"activeServiceStatus": {"rayClusterName": cluster, **said_by_serve(status, message)}})

    def comes_up(self, status: str = "DEPLOYING", message: str = "") -> None:
        """Simulate that KubeRay starts a second cluster while the first serves."""
        assert self.ray is not None
        self._made(SECOND)
        pending = {"rayClusterName": SECOND, **said_by_serve(status, message)}
        active = self.ray["status"]["activeServiceStatus"]
        self._says({"activeServiceStatus": active, "pendingServiceStatus": pending})

    def _made(self, name: str) -> None:
        assert self.ray is not None
        if any(each["metadata"]["name"] == name for each in self.clusters):
            return
        marks = {mark: self.ray["metadata"]["annotations"].get(mark, "") for mark in MARKS}
        made = {"name": name, "creationTimestamp": f"2026-05-04T11:{len(self.clusters):02}:00Z"}
        self.clusters.append({"metadata": {**made, "annotations": marks}, "spec": {}})

    def _says(self, status: dict[str, Any]) -> None:
        assert self.ray is not None
        observed = {"observedGeneration": self.ray["metadata"]["generation"]}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.ray["status"] = {**observed, **ready, **status}

    async def up(self) -> "Rolling":
        """Start the application."""
        await self.steps()
        self.serves()
        await self.steps(60)
        return self

    def pods(self, *groups: str, ready: bool = True, placed: bool = True) -> None:
        """Set the pods of worker groups or `headgroup`. Without `placed`, workers are on no node."""
        self.more["pods"] = tuple(
            {
                "metadata": {
                    "name": f"{self.cluster}-{group}",
                    "labels": {
                        names.RAY_CLUSTER_LABEL: self.cluster,
                        names.RAY_NODE_TYPE_LABEL: "head" if group == "headgroup" else "worker",
                        names.RAY_GROUP_LABEL: group,
                    },
                },
                "spec": {"nodeName": "n"} if placed or group == "headgroup" else {},
                "status": {
                    "phase": "Running" if placed or group == "headgroup" else "Pending",
                    "conditions": [{"type": "Ready", "status": str(ready or group == "headgroup")}],
                },
            }
            for group in groups
        )

    @property
    def bounds(self) -> dict[str, Any]:
        """Return the desired bounds of the Ray clusters."""
        return cluster_bounds(view_of(self.look()))

    def desired(self, kind: str) -> dict[str, Any] | None:
        """Return the object of this kind from the last plan, or None."""
        return next((each.desired for each in self.plan.targets if each.desired["kind"] == kind), None)

    @property
    def rollout(self) -> tuple[str, int]:
        """Return the phase of the rollout, and the number of the revision that it builds."""
        assert self.status is not None
        return self.status["rollout"]["phase"], self.status["rollout"]["currentRevisionNumber"]

    @property
    def files(self) -> str:
        """Return the digest of the files that the RayService uses."""
        assert self.ray is not None
        return str(self.ray["metadata"]["annotations"].get(names.CODE_ANNOTATION, ""))

    @property
    def called_off(self) -> str:
        """Return the name of the second Ray cluster that is no longer needed, or an empty string."""
        return redundant_cluster(view_of(self.look()))

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Return the status, reason and message of a condition."""
        assert self.status is not None
        found = next(each for each in self.status["conditions"] if each["type"] == kind)
        return found["status"], found["reason"], found["message"]

    @property
    def gate(self) -> tuple[str, str]:
        """Return the gate's phase and state."""
        assert self.status is not None
        [found] = self.status["gate"]["models"]
        return found["phase"], found["state"]


SETTLED = SETTLE.total_seconds() + 1
QUIET: Traffic = Traffic(known=True, idle=timedelta(hours=1), acknowledged=10**15, routed=True)
