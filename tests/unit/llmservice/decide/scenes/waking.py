"""A waking service, with pods that report their times, for the tests of the wake steps."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from daybreak.kinds.llmservice.decide.snapshot import Snapshot, snapshot_of
from daybreak.ray.views.ray_pods import pod_views
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    START,
    World,
    manifest,
    pod,
    ray_service,
    ray_status,
    service,
)


def snapshot(
    *pods: Any,
    seconds: float = 90,
    serve: str = "HEALTHY",
    observed: bool = True,
    leaving: bool = False,
    failed: str = "",
    pending: bool = False,
    models: tuple[Any, ...] = (CPU_MODEL,),
    **spec: Any,
) -> Snapshot:
    """Return the snapshot at the given number of seconds after the start."""
    llm = manifest(*models, **spec)
    message = ray_status(
        active="" if pending else "chat-aaaaa",
        pending="chat-aaaaa" if pending else "",
        ready=not pending,
        app="RUNNING",
        models={model["name"]: "DEPLOY_FAILED" if model["name"] == failed else serve for model in models},
        generation=2 if observed else 1,
    )
    ray = ray_service(llm, generation=2, status=message)
    if leaving:
        ray["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    observation = replace(World(llm).observed, ray_service=ray, now=START + timedelta(seconds=seconds))
    return replace(snapshot_of(observation, service(*models, **spec), (), ()), pods=pod_views(tuple(pods)))


def made(
    name: str, model: str | None, created: int, scheduled: int | None, ready: int | None, **more: Any
) -> Any:
    """Return a pod with its times, in seconds after the start; None: not yet."""

    def at(seconds: int) -> str:
        return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def condition(kind: str, moment: int | None) -> Any:
        return {"type": kind, "status": str(moment is not None), "lastTransitionTime": at(moment or 0)}

    found = pod(name, model=model, **more)
    found["metadata"]["creationTimestamp"] = at(created)
    conditions = [condition("PodScheduled", scheduled), condition("Ready", ready)]
    found["status"] = {"phase": "Running" if scheduled is not None else "Pending", "conditions": conditions}
    return found
