"""A service with recorded revisions: its objects follow the last decision, as the observer reads it."""

from dataclasses import replace
from typing import Any

from daybreak.kinds.llmservice.decide.defaults import change
from daybreak.kinds.llmservice.objects.ray_service import ray_service as build
from daybreak.kinds.llmservice.objects.revisions import applied, built_of
from daybreak.ray.views.ray_pods import pod_views, requests_by_node
from daybreak.rollouts.record import state_of
from daybreak.rollouts.revisions import Revision
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    HEAD,
    PLATFORM,
    WORKER,
    Manifest,
    World,
    manifest,
    node,
    pod,
    ray_status,
)
from tests.unit.llmservice.decide.scenes.sleeping import view
from tests.unit.llmservice.decision import Decision

SMALL = (node(cpu="4"),)
"""Node that is too small for two clusters of the service."""


class Rolling(World):
    """Serving service, and the RayService of its current revision."""

    def __init__(self, *models: Manifest, nodes: Any = SMALL, **spec: Any) -> None:
        super().__init__(manifest(*models, **spec), gateway=view(), nodes=nodes)
        self.known: tuple[Revision, ...] = ()

    def edit_spec(self, *models: Manifest, **spec: Any) -> None:
        """Change the spec, as a user does."""
        self.edit(manifest(*models, **spec))

    def step(self, **options: Any) -> Decision:
        """Step as a reconcile does, with everything that the observer adds."""
        self._observe(options)
        return super().step(**options)

    def _observe(self, options: dict[str, Any]) -> None:
        written = self.observed.requested
        assert written is not None
        decided = state_of(self.observed.status)
        there = decided is not None and decided.last_successful_revision is not None
        service = (
            applied(written, decided.current_revision, self.known) if decided is not None and there else None
        )
        self.observed = replace(
            self.observed,
            subject=service or written,
            written=written if service is not None else None,
            known_revisions=self.known,
            **{
                name: options.pop(name)
                for name in list(options)
                if name in ("ray_service", "pods", "gateway")
            },
        )
        booked = requests_by_node(pod_views(self.observed.pods))
        self.observed = replace(self.observed, changes=self._changes(), booked=booked)
        self.known = self.observed.revisions

    def _changes(self) -> dict[str, Any]:
        found = {}
        assert self.observed.requested is not None
        for revision in self.observed.revisions:
            other = built_of(self.observed.requested, revision)
            if other is not None and revision != self.observed.own_revision:
                to = change(self.observed, other, PLATFORM, self.observed.ray_service)
                if to is not None:
                    found[revision.name] = to
        return found

    def edit(self, llm: Manifest) -> None:
        """Change the LLMService; the next step decides about the revision."""
        super().edit(llm)
        self.observed = replace(self.observed, written=None)

    def built(self, **status: Any) -> Manifest:
        """Return the RayService of the decided revision, as KubeRay reports it when built."""
        self._observe({})
        assert self.observed.subject is not None
        models = {model.name: "HEALTHY" for model in self.observed.subject.spec.models}
        report = {"active": "chat-aaaaa", "ready": True, "app": "RUNNING", "models": models, **status}
        found = build(self.observed.subject, PLATFORM)
        found["metadata"]["generation"] = report.get("generation", 1)
        return {**found, "status": ray_status(**report)}

    def up(self) -> "Rolling":
        """Bring the service up."""
        self.step()
        self.step(ray_service=self.built(), pods=(HEAD, WORKER), answers={"tiny": True})
        return self

    @property
    def rollout(self) -> Manifest:
        """Return the rollout from the status."""
        found: Manifest = self.observed.status["rollout"]
        return found

    @property
    def phase(self) -> tuple[str, str, int]:
        """Return the rollout's phase, the service's phase, and the number of its current revision."""
        return self.rollout["phase"], self.observed.status["phase"], self.rollout["currentRevisionNumber"]


NEW_POD = pod("w-2", cluster="chat-bbbbb")
NEW_HEAD = pod("head-2", cluster="chat-bbbbb", model=None)
IMAGE = {"runtime": {"image": "ray:2"}}
ARGUMENT = {**CPU_MODEL, "engine": {"args": {"max_model_len": 128}}}
