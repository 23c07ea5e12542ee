"""Copies of weights into PVCs by Jobs: their progress and their problems.

The service's status records a complete copy with its PVC and directory; after that, its Job is no longer
needed. Until every model's weights are complete, the RayService stays unchanged, unless the service sleeps.
At first there is no RayService; later the previous one continues.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from daybreak.api.common import names, volume_names
from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import Manifest, at, condition, mapping, mappings, text, whole
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.pods.pod_template import FILL_CONTAINER
from daybreak.api.ray.cache import CachePhase, CacheStatus, ModelCache
from daybreak.api.ray.model import Model
from daybreak.kinds.llmservice.observe.observed import CopyReport, Observed
from daybreak.problems.pod_problems import pod_problem
from daybreak.problems.pod_refusals import PodFields, fix, rejects, with_fix
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt
from daybreak.ray.views.ray_pods import PodView, pod_views

FIELDS = {FILL_CONTAINER: PodFields("spec.models[].cache.podTemplate", FILL_CONTAINER)}
"""Fields of a Job's pod, by container."""
_SOMEBODY_MUST_ACT = 2
"""Exit status of the copy program if a retry alone does not help."""
_MANY_TRIES = 5
"""Number of failed attempts after which action is required."""


@dataclass(frozen=True)
class CacheView:
    """Assessment of the copy of one model's weights."""

    model: str
    status: CacheStatus
    noted: bool
    """True if the status already records the complete copy, so that no Job is needed."""
    problem: Problem | None = None
    doing: str = ""
    """Progress for display; empty if the copy is complete."""

    @property
    def complete(self) -> bool:
        """Return True if all weights are copied."""
        return self.status.phase is CachePhase.COMPLETE


def caches(observed: Observed, service: LLMService) -> tuple[CacheView, ...]:
    """Return the copies of all models that have a cache."""
    before = {
        text(item.get("name")): item for item in mappings(at(observed.manifest, "status").get("models"))
    }
    return tuple(
        _view(observed, service, model, model.cache, kept(before.get(model.name, {})))
        for model in service.spec.models
        if model.cache is not None
    )


def unfilled(views: Sequence[CacheView]) -> tuple[str, ...]:
    """Return the names of the models whose Jobs are needed."""
    return tuple(view.model for view in views if not view.noted)


def kept(before: Mapping[str, Any]) -> CacheStatus | None:
    """Return the copy that the status records, or None if there is none or it is malformed."""
    try:
        return CacheStatus.model_validate(before.get("cache"))
    except ValidationError:
        return None


def _view(
    observed: Observed, service: LLMService, model: Model, desired: ModelCache, before: CacheStatus | None
) -> CacheView:
    claim = desired.claim(service.name, model.name)
    directory = volume_names.cached_weights(model.source, model.revision)
    uid = _uid(observed.claims, claim) if desired.size is not None else None
    same = before is not None and (before.claim, before.path, before.claim_uid) == (claim, directory, uid)
    if before is not None and same and before.phase is CachePhase.COMPLETE:
        return CacheView(model.name, before, noted=True)
    empty = CacheStatus(phase=CachePhase.PENDING, claim=claim, claim_uid=uid, path=directory)
    job = _job(observed.jobs, model.name, f"{claim}/{directory}")
    if job is None:
        return CacheView(model.name, empty, False, doing=f"a Job that fills claim {claim} is being made")
    pods = [pod for pod in pod_views(observed.pods) if _of(job, pod)]
    if same and before is not None:
        known = {name: getattr(before, name) for name in ("bytes", "copied", "percent")}
        empty = empty.model_copy(update=known)
    rejection = observed.rejections.get(text(at(job, "metadata").get("name")), "")
    return _judged(model, empty, job, pods, observed.copies.get(model.name), rejection)


def _judged(
    model: Model,
    empty: CacheStatus,
    job: Manifest,
    pods: Sequence[PodView],
    far: CopyReport | None,
    rejection: str,
) -> CacheView:
    status = mapping(job.get("status"))
    started = text(status.get("startTime")) or None
    found = empty.model_copy(update={"start_time": started})
    running = any(_running(pod) for pod in pods)
    if condition(status, "Complete").get("status") == "True" and not running:
        reported = _final_report(pods)
        done = {
            "phase": CachePhase.COMPLETE,
            "completion_time": text(status.get("completionTime")) or None,
            "bytes": whole(reported.get("bytes")) or None,
            "copied": None,
            "percent": None,
            "revision": text(reported.get("revision")) or None,
        }
        return CacheView(model.name, found.model_copy(update=done), False)
    problem = next((each for pod in pods if (each := _problem(pod)) is not None), None)
    if rejection and not pods:
        message = with_fix(f"cache: no pod can be created: {excerpt(rejection)}", fix(rejection, FIELDS))
        problem = Problem(Reason.OBJECT_REJECTED, message, rejects(rejection))
    if problem is not None and problem.reason is Reason.CACHE_FAILED:
        phase = CachePhase.FAILED
    else:
        phase = CachePhase.FILLING if running else CachePhase.PENDING
    found = found.model_copy(update={"phase": phase})
    if running and far is not None:
        report = {"bytes": far.total, "copied": far.copied, "percent": far.percent}
        found = found.model_copy(update=report)
    doing = (
        f"its weights are being copied from {model.source} into claim {empty.claim}{_far(found)}"
        if running
        else f"the Job {text(at(job, 'metadata').get('name'))}, which fills claim {empty.claim}, is starting"
    )
    return CacheView(model.name, found, False, problem, doing)


def _far(status: CacheStatus) -> str:
    """Return the progress of a copy for display; empty if it is unknown."""
    if not status.copied or not status.bytes:
        return ""
    copied, total = status.copied / 2**30, status.bytes / 2**30
    return f": {copied:.1f} of {total:.1f} GiB ({status.percent} %)"


def _uid(claims: Sequence[Manifest], name: str) -> str | None:
    """Return the uid of one of the service's PVCs, or None if the PVC does not exist."""
    for claim in claims:
        metadata = at(claim, "metadata")
        if metadata.get("name") == name:
            return text(metadata.get("uid")) or None
    return None


def _job(jobs: Sequence[Manifest], model: str, identity: str) -> Manifest | None:
    """Return the newest of the model's Jobs for a PVC and a directory, or None without a Job."""
    own = [
        job
        for job in jobs
        if at(job, "metadata", "annotations").get(names.CACHE_ANNOTATION) == identity
        and at(job, "metadata", "labels").get(names.MODEL_LABEL) == names.worker_group(model)
        and not at(job, "metadata").get("deletionTimestamp")
    ]
    return max(own, key=lambda job: text(at(job, "metadata").get("creationTimestamp")), default=None)


def _of(job: Manifest, pod: PodView) -> bool:
    labels = at(pod.manifest, "metadata", "labels")
    return labels.get(names.JOB_NAME_LABEL) == at(job, "metadata").get("name") and not pod.leaving


def _running(pod: PodView) -> bool:
    containers = mappings(at(pod.manifest, "status").get("containerStatuses"))
    return any(mapping(each.get("state")).get("running") is not None for each in containers)


def _final_report(pods: Sequence[PodView]) -> Mapping[str, Any]:
    """Return the final report of the copy program."""
    for pod in pods:
        for container in mappings(at(pod.manifest, "status").get("containerStatuses")):
            ended = at(container, "state", "terminated")
            if ended and not whole(ended.get("exitCode")):
                try:
                    return mapping(json.loads(text(ended.get("message"))))
                except ValueError:
                    return {}
    return {}


def _problem(pod: PodView) -> Problem | None:
    """Return the problem that blocks a Job's pod, or None if the pod makes progress."""
    for container in mappings(at(pod.manifest, "status").get("containerStatuses")):
        state = mapping(container.get("state"))
        ended = mapping(state.get("terminated")) or at(container, "lastState", "terminated")
        status = whole(ended.get("exitCode"))
        # The kubelet's messages (an image, a Secret) take precedence, because they are current.
        waiting = text(mapping(state.get("waiting")).get("reason"))
        if status and (not waiting or waiting == "CrashLoopBackOff"):
            stalled = status == _SOMEBODY_MUST_ACT or whole(container.get("restartCount")) >= _MANY_TRIES
            return Problem(Reason.CACHE_FAILED, _words(ended, status), stalled)
    found = pod_problem(pod)
    return None if found is None else Problem(found.reason, f"cache: {found.message}", found.stalled)


def _words(ended: Mapping[str, Any], status: int) -> str:
    if ended.get("reason") == "OOMKilled":
        return "copying its weights took more memory than its Job may have (OOMKilled); it is tried again"
    message = excerpt(text(ended.get("message"))) or f"the program ended with exit code {status}"
    return f"its weights cannot be copied: {message}; it is tried again"
