"""One look at a service: everything seen, read once, for every judgement that follows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from daybreak.api.llmservice import LLMService
from daybreak.lifecycle.diagnosis import service_trouble
from daybreak.lifecycle.observed import Answer, Observed
from daybreak.lifecycle.podview import PodView, pod_views
from daybreak.lifecycle.rayview import RayView, ray_view
from daybreak.lifecycle.reading import mapping, mappings, text
from daybreak.lifecycle.trouble import Trouble


@dataclass(frozen=True)
class Look:
    """What is seen of a service with a spec that can be read."""

    service: LLMService
    ray: RayView
    pods: list[PodView]
    trouble: Trouble | None
    """What keeps the whole Ray cluster from coming up."""
    before: Mapping[str, Mapping[str, Any]]
    """What the status has said of each model so far, by the model's name."""
    unanswered_before: bool
    """Whether the status has said that models do not answer."""
    answers: Mapping[str, Answer]
    now: datetime


def look_at(seen: Observed, service: LLMService) -> Look:
    """Read what is seen."""
    ray = ray_view(seen.ray_service)
    pods = pod_views(seen.pods)
    return Look(
        service=service,
        ray=ray,
        pods=pods,
        trouble=service_trouble(ray, seen.ray_clusters, pods),
        before=models_before(seen),
        unanswered_before=condition_before(seen, "Ready").get("reason") == "NotAnswering",
        answers={answer.model: answer for answer in seen.answers},
        now=seen.now,
    )


def models_before(seen: Observed) -> dict[str, Mapping[str, Any]]:
    """The models of the status as it stands, by name."""
    status = mapping(seen.manifest.get("status"))
    return {text(item.get("name")): item for item in mappings(status.get("models"))}


def condition_before(seen: Observed, kind: str) -> Mapping[str, Any]:
    """A condition of the status as it stands; empty when there is none."""
    status = mapping(seen.manifest.get("status"))
    return next((item for item in mappings(status.get("conditions")) if item.get("type") == kind), {})


def parse_time(written: str) -> datetime | None:
    """A time as Kubernetes writes it, or None."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
