"""Services, nodes and Ray objects as the API server returns them, and a world that moves step by step."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType
from daybreak.api.llmservice import validation
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.schema.custom_object import InvalidSpec
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.platform import Platform
from daybreak.scheduling.nodes import Node
from daybreak.workloads.answer import Answer
from tests.unit.llmservice.decision import Decision, decide

Manifest = dict[str, Any]

PLATFORM = Platform(ray_image="ray:1", ray_cpu_image="ray-cpu:1")
START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
CPU_MODEL: Manifest = {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}}
OTHER_MODEL: Manifest = {**CPU_MODEL, "name": "other"}
GPU_MODEL: Manifest = {"name": "qwen", "source": "hf://Qwen/Qwen2.5-7B-Instruct"}


def manifest(*models: Manifest, generation: int = 1, **spec: Any) -> Manifest:
    """Return an LLMService as the API server returns it."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "chat", "namespace": "default", "uid": "uid-1", "generation": generation},
        "spec": {"models": list(models or (CPU_MODEL,)), **spec},
    }


def read(llm: Mapping[str, Any]) -> tuple[LLMService | None, tuple[str, ...]]:
    """Return a service and its problems, as the observer reads them."""
    try:
        service = LLMService.from_manifest(llm)
    except InvalidSpec as error:
        return None, (str(error),)
    return service, validation.problems(service)


def service(*models: Manifest, **spec: Any) -> LLMService:
    """Return a readable service."""
    return LLMService.from_manifest(manifest(*models, **spec))


def node(
    name: str = "node-a",
    *,
    gpus: int = 0,
    cpu: str = "64",
    memory: str = "512Gi",
    labels: dict[str, str] | None = None,
    taints: tuple[Manifest, ...] = (),
    cordoned: bool = False,
    resource: str = "nvidia.com/gpu",
) -> Node:
    """Return a node."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "96Gi"}
    if gpus:
        allocatable[resource] = str(gpus)
    return Node(
        name=name,
        labels={"kubernetes.io/hostname": name, **(labels or {})},
        taints=taints,
        allocatable=allocatable,
        unschedulable=cordoned,
    )


def ray_service(llm: Mapping[str, Any], *, generation: int = 1, status: Manifest | None = None) -> Manifest:
    """Return the RayService that the builders create for the service, with a status of KubeRay's."""
    found = next(
        item
        for item in desired(LLMService.from_manifest(llm), PLATFORM, None)
        if item["kind"] == "RayService"
    )
    found = copy.deepcopy(found)
    found["metadata"]["generation"] = generation
    if status is not None:
        found["status"] = status
    return found


def ray_status(
    *,
    active: str = "",
    pending: str = "",
    ready: bool = False,
    app: str | None = None,
    message: str = "",
    models: dict[str, str | tuple[str, str]] | None = None,
    generation: int = 1,
    updated: datetime = START,
    reason: str = "",
    report: str = "",
) -> Manifest:
    """Return a RayService's status as KubeRay 1.6 writes it.

    The Serve status belongs to the pending cluster, if any.
    """
    deployments = {
        names.serve_deployment(model): dict(
            zip(("status", "message"), (state, "") if isinstance(state, str) else state, strict=True)
        )
        for model, state in (models or {}).items()
    }
    applications = {}
    if app is not None:
        applications[names.APPLICATION] = {
            "status": app,
            "message": message,
            "serveDeploymentStatuses": {names.INGRESS_DEPLOYMENT: {"status": "HEALTHY"}, **deployments},
        }
    words = {"applicationStatuses": applications} if applications else {}
    upgrade = bool(active and pending)
    return {
        "activeServiceStatus": {"rayClusterName": active, **({} if pending else words)} if active else {},
        "pendingServiceStatus": {"rayClusterName": pending, **words} if pending else {},
        "conditions": [
            {
                "type": "Ready",
                "status": "True" if ready else "False",
                "reason": reason or ("NonZeroServeEndpoints" if ready else "Initializing"),
                "message": report
                or ("Number of serve endpoints is greater than 0" if ready else "RayService is initializing"),
                "observedGeneration": generation,
            },
            {"type": "UpgradeInProgress", "status": str(upgrade), "reason": "NoPendingCluster"},
        ],
        "lastUpdateTime": updated.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "numServeEndpoints": int(ready),
        "observedGeneration": generation,
        "serviceStatus": "Running" if ready else "",
    }


def pod(
    name: str = "w-1",
    *,
    cluster: str = "chat-aaaaa",
    model: str | None = "tiny",
    ready: bool = True,
    gpus: int = 0,
    placed: bool = True,
    status: Manifest | None = None,
    leaving: bool = False,
) -> Manifest:
    """A Ray pod as the cache keeps it: a worker of a model, or the head when `model` is None."""
    group = "headgroup" if model is None else names.worker_group(model)
    role = "head" if model is None else "worker"
    metadata: Manifest = {
        "name": name,
        "namespace": "default",
        "labels": {
            names.RAY_CLUSTER_LABEL: cluster,
            names.RAY_NODE_TYPE_LABEL: role,
            names.RAY_GROUP_LABEL: group,
            **names.owner_labels("chat"),
        },
    }
    if leaving:
        metadata["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    requests = {"cpu": "2", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": "node-a" if placed else None,
            "containers": [{"name": f"ray-{role}", "image": "ray:1", "resources": {"requests": requests}}],
        },
        "status": status
        or {
            "phase": "Running" if placed else "Pending",
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def waiting(
    reason: str, message: str = "", *, container: str = "ray-worker", image: str = "ray:1"
) -> Manifest:
    """Return the status of a pod with a container that does not start."""
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {"name": container, "image": image, "state": {"waiting": {"reason": reason, "message": message}}}
        ],
    }


def unplaced(message: str, reason: str = "Unschedulable") -> Manifest:
    """Return the status of a pod that is not scheduled."""
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}],
    }


class World:
    """A service and what surrounds it. Each step decides as a reconcile does, and keeps the status."""

    def __init__(self, llm: Mapping[str, Any] | None = None, **observed: Any) -> None:
        llm = llm or manifest()
        found, problems = read(llm)
        self.observed = Observed(
            manifest=llm,
            subject=found,
            problems=problems,
            kuberay_installed=True,
            nodes=(node(gpus=8),),
            now=START,
        )
        self.observed = replace(self.observed, **observed)

    def step(
        self, *, after: float = 1.0, answers: dict[str, bool | str] | None = None, **observed: Any
    ) -> Decision:
        """Let time pass, change what is seen, decide, and write the status.

        `answers` says what comes of asking a model: True, or why not; what it has `answered` is an error.
        """
        self.observed = replace(self.observed, now=self.observed.now + timedelta(seconds=after), **observed)
        came = tuple(
            Answer(
                model,
                report is True,
                report if isinstance(report, str) else "",
                erred="answered" in str(report),
            )
            for model, report in (answers or {}).items()
        )
        decision = decide(replace(self.observed, answers=came))
        self._write(decision)
        return decision

    def edit(self, llm: Manifest) -> None:
        """Change the LLMService's spec, as a user does."""
        llm = copy.deepcopy(llm)
        llm["metadata"]["generation"] = self.observed.manifest["metadata"]["generation"] + 1
        if "status" in self.observed.manifest:
            llm["status"] = self.observed.manifest["status"]
        found, problems = read(llm)
        self.observed = replace(self.observed, manifest=llm, subject=found, problems=problems)

    def _write(self, decision: Decision) -> None:
        status = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.observed = replace(self.observed, manifest={**self.observed.manifest, "status": status})


def running(world: World, **status: Any) -> Manifest:
    """Return the world's RayService with a cluster that serves every model."""
    models = {model["name"]: "HEALTHY" for model in world.observed.manifest["spec"]["models"]}
    report: Manifest = {"active": "chat-aaaaa", "ready": True, "app": "RUNNING", "models": models, **status}
    llm = {key: value for key, value in world.observed.manifest.items() if key != "status"}
    return ray_service(llm, generation=report.get("generation", 1), status=ray_status(**report))


def conditions(decision: Decision) -> dict[str, str]:
    """Return status and reason of each condition, by type."""
    return {item.type: f"{item.status}/{item.reason}" for item in decision.status.conditions}


def message(decision: Decision, kind: ConditionType = ConditionType.READY) -> str:
    """Return the message of a condition."""
    return next(item.message for item in decision.status.conditions if item.type == kind)


HEAD = pod("head", model=None)
WORKER = pod()


def started(world: World, **status: Any) -> None:
    """Bring a service up until every model has answered."""
    models = [model["name"] for model in world.observed.manifest["spec"]["models"]]
    pods = (HEAD, *(pod(f"w-{name}", model=name) for name in models))
    world.step()
    decision = world.step(
        ray_service=running(world, **status), pods=pods, answers=dict.fromkeys(models, True)
    )
    assert conditions(decision)["Ready"] == "True/Serving"
    assert decision.requeue_after is None
