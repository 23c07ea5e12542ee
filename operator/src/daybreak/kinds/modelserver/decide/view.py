"""View of a ModelServer's pods, derived from the observation."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property

from daybreak.api.common import names
from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import at, condition, text, whole
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.resource import KIND
from daybreak.api.modelserver.status import CrashStatus
from daybreak.api.modelserver.validation import ENGINE_CONTAINER
from daybreak.api.schema.scalars import seconds
from daybreak.kinds.modelserver.decide import groups
from daybreak.kinds.modelserver.decide.groups import takes_requests
from daybreak.kinds.modelserver.objects.deployment import configuration, wishes
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.problems.pod_problems import pod_problem
from daybreak.problems.pod_refusals import PodFields, fix, with_fix
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt
from daybreak.ray.views.ray_pods import PodView
from daybreak.scheduling.turn_words import waiting
from daybreak.workloads import view
from daybreak.workloads.view import address

FIELDS = {ENGINE_CONTAINER: PodFields("spec.podTemplate", ENGINE_CONTAINER, "spec.resources")}
"""Fields of the pods, by container."""


class View(view.View[Observed, ModelServer]):
    """View of a ModelServer: its observation with derived facts."""

    noun = "model"
    kind = KIND
    fits = "the pods of a replica"

    @property
    def server(self) -> ModelServer:
        """Return the ModelServer."""
        return self.subject

    @property
    def url(self) -> str:
        """Return the base URL for clients."""
        return address(self.server.protocol, self.server.name, self.server.namespace)

    @property
    def made(self) -> bool:
        """Return True if the Deployment or LeaderWorkerSet exists."""
        return self.observed.deployment is not None

    @cached_property
    def current(self) -> str:
        """Return the digest of the current pod configuration; empty if nothing creates pods."""
        return configuration(self.observed.deployment)

    @cached_property
    def carried_out(self) -> bool:
        """Return True if the Deployment matches the spec, and its controller has observed it."""
        annotations = at(self.observed.deployment, "metadata", "annotations")
        return annotations.get(names.WISHES_ANNOTATION) == wishes(self.server) and not self.late

    @property
    def late(self) -> bool:
        """Return True if the controller has not yet observed the current Deployment."""
        generation = whole(at(self.observed.deployment, "metadata").get("generation"))
        status = at(self.observed.deployment, "status")
        if self.server.spec.nodes > 1 and "observedGeneration" not in status:
            return False  # not every version of LeaderWorkerSet reports it
        return self.made and whole(status.get("observedGeneration")) < generation

    @cached_property
    def current_pods(self) -> Sequence[PodView]:
        """Return the pods with the current configuration."""
        return [pod for pod in self.pods if pod.counts and configuration(pod.manifest) == self.current]

    @cached_property
    def ready(self) -> Sequence[PodView]:
        """Return the ready pods that receive requests, in any configuration.

        Of a replica on several nodes this is the leader.
        """
        return [pod for pod in self.pods if pod.counts and pod.ready and takes_requests(pod)]

    @cached_property
    def ready_now(self) -> Sequence[PodView]:
        """Return the ready pods that receive requests, in the current configuration."""
        return [pod for pod in self.current_pods if pod.ready and takes_requests(pod)]

    @cached_property
    def answered(self) -> str:
        """Return the digest of the configuration that has answered, including now; empty if none has."""
        if self.current and self.ready_now and any(answer.answered for answer in self.observed.answers):
            return self.current
        # A server that has slept is probed again.
        return "" if self.observed.asleep else text(self.observed.status.get("probedConfiguration"))

    @property
    def answering(self) -> bool:
        """Return True if requests are answered."""
        return any(configuration(pod.manifest) == self.answered for pod in self.ready if self.answered)

    @property
    def relieved(self) -> bool:
        """Return True if the configuration that has answered still serves, alongside pods of another one."""
        return self.answering and self.answered != self.current

    @property
    def ask(self) -> bool:
        """Return True if the server must be probed."""
        return not self.observed.asleep and bool(self.ready_now) and self.answered != self.current

    @property
    def silent(self) -> str:
        """Return the message of a probe without an answer; empty if there is none."""
        return next((answer.message for answer in self.observed.answers if not answer.answered), "")

    @cached_property
    def updating(self) -> bool:
        """Return True if a change of awake pods is in progress."""
        others = [pod for pod in self.pods if pod.counts and configuration(pod.manifest) != self.current]
        return self.late or bool(others) or (bool(self.answered) and self.answered != self.current)

    @cached_property
    def crash(self) -> CrashStatus | None:
        """Return the last crashed replica on several nodes, or None without one or with answered requests."""
        if self.observed.asleep or self.answering or self.server.spec.nodes == 1:
            return None
        return groups.crash(self.pods, self.current, self.observed.status)

    @property
    def drain(self) -> timedelta:
        """Return the time that requests in progress may take when a pod stops."""
        return timedelta(seconds=seconds(self.server.spec.graceful_shutdown_timeout))

    @cached_property
    def problem(self) -> Problem | None:
        """Return the problem that blocks pods, preferably one that requires action, or None."""
        if self.observed.asleep:
            return None
        failed = condition(at(self.observed.deployment, "status"), "ReplicaFailure")
        if failed.get("status") == "True" and not self.current_pods:
            refusal = text(failed.get("message"))
            message = with_fix(f"no pod can be created: {excerpt(refusal)}", fix(refusal, FIELDS))
            return Problem(Reason.OBJECT_REJECTED, message, stalled=True)
        found = [problem for pod in self.current_pods if (problem := pod_problem(pod)) is not None]
        if self.crash is not None:
            found.append(Problem(Reason.CONTAINER_CRASHING, self.crash.message, stalled=self.crash.repeated))
        return self.reported(found)

    @property
    def waking_pods(self) -> Sequence[PodView]:
        """Return the pods whose steps are those of a wake, in any configuration."""
        return [pod for pod in self.pods if pod.counts]

    @property
    def missing(self) -> str:
        """Return the number of ready replicas for display; empty if all are ready."""
        ready, desired = len(self.ready), self.server.spec.replicas
        return f"{ready} of {desired} replicas ready" if ready < desired else ""

    @property
    def doing(self) -> str:
        """Return the progress of the server for display."""
        if self.in_line:
            return waiting(self.observed.own_turn.after, self.observed.own_turn)
        if self.observed.deployment is None or not self.current_pods:
            return "its pods are being created"
        if self.ready_now:
            return self.silent or "its engine is being probed for a first answer"
        if any(pod.placed for pod in self.current_pods):
            return "its engine is starting"
        return "its pods wait for a node"
