"""How a ModelServer's pods are, read off what is seen."""

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
"""Fields of its pods, by container."""


class View(view.View[Observed, ModelServer]):
    """What is seen, with what follows from it."""

    noun = "model"
    kind = KIND
    fits = "the pods of a replica"

    @property
    def server(self) -> ModelServer:
        """The ModelServer."""
        return self.subject

    @property
    def url(self) -> str:
        """Where a client points its base URL."""
        return address(self.server.protocol, self.server.name, self.server.namespace)

    @property
    def made(self) -> bool:
        """Whether there is what makes its pods."""
        return self.seen.deployment is not None

    @cached_property
    def current(self) -> str:
        """Digest of what pods are made to run; empty: there is nothing that makes them."""
        return configuration(self.seen.deployment)

    @cached_property
    def carried_out(self) -> bool:
        """Whether the Deployment is what is asked of it, as far as its controller has seen it."""
        annotations = at(self.seen.deployment, "metadata", "annotations")
        return annotations.get(names.WISHES_ANNOTATION) == wishes(self.server) and not self.late

    @property
    def late(self) -> bool:
        """Whether its controller has not seen the Deployment as it is now."""
        generation = whole(at(self.seen.deployment, "metadata").get("generation"))
        status = at(self.seen.deployment, "status")
        if self.server.spec.nodes > 1 and "observedGeneration" not in status:
            return False  # not every version of LeaderWorkerSet says it
        return self.made and whole(status.get("observedGeneration")) < generation

    @cached_property
    def current_pods(self) -> Sequence[PodView]:
        """Its pods that run what they should."""
        return [pod for pod in self.pods if pod.counts and configuration(pod.manifest) == self.current]

    @cached_property
    def ready(self) -> Sequence[PodView]:
        """Pods that take requests, whatever they run: of a replica on several nodes its leader."""
        return [pod for pod in self.pods if pod.counts and pod.ready and takes_requests(pod)]

    @cached_property
    def ready_now(self) -> Sequence[PodView]:
        """Those of them that run what they should."""
        return [pod for pod in self.current_pods if pod.ready and takes_requests(pod)]

    @cached_property
    def answered(self) -> str:
        """What has answered, after the answers of this look: digest of what its pods run; empty: nothing."""
        if self.current and self.ready_now and any(answer.answered for answer in self.seen.answers):
            return self.current
        # What has slept is asked anew.
        return "" if self.seen.asleep else text(self.seen.status.get("probedConfigurationHash"))

    @property
    def answering(self) -> bool:
        """Whether requests get an answer."""
        return any(configuration(pod.manifest) == self.answered for pod in self.ready if self.answered)

    @property
    def relieved(self) -> bool:
        """Whether what has answered serves still, beside pods that are made otherwise."""
        return self.answering and self.answered != self.current

    @property
    def ask(self) -> bool:
        """Whether it is to be asked for an answer."""
        return not self.seen.asleep and bool(self.ready_now) and self.answered != self.current

    @property
    def silent(self) -> str:
        """What it said in place of an answer; empty: nothing."""
        return next((answer.message for answer in self.seen.answers if not answer.answered), "")

    @cached_property
    def updating(self) -> bool:
        """Whether a change is on its way to pods that are awake."""
        others = [pod for pod in self.pods if pod.counts and configuration(pod.manifest) != self.current]
        return self.late or bool(others) or (bool(self.answered) and self.answered != self.current)

    @cached_property
    def crash(self) -> CrashStatus | None:
        """The last replica on several nodes that ended before one answered; None: none has, or one does."""
        if self.seen.asleep or self.answering or self.server.spec.nodes == 1:
            return None
        return groups.crash(self.pods, self.current, self.seen.status)

    @property
    def drain(self) -> timedelta:
        """How long requests in progress may take at the end of its pods."""
        return timedelta(seconds=seconds(self.server.spec.graceful_shutdown_timeout))

    @cached_property
    def problem(self) -> Problem | None:
        """What keeps pods from being ready, what somebody must act on first."""
        if self.seen.asleep:
            return None
        failed = condition(at(self.seen.deployment, "status"), "ReplicaFailure")
        if failed.get("status") == "True" and not self.current_pods:
            refusal = text(failed.get("message"))
            said = with_fix(f"no pod can be made: {excerpt(refusal)}", fix(refusal, FIELDS))
            return Problem(Reason.OBJECT_REJECTED, said, stalled=True)
        found = [problem for pod in self.current_pods if (problem := pod_problem(pod)) is not None]
        if self.crash is not None:
            found.append(Problem(Reason.CONTAINER_CRASHING, self.crash.message, stalled=self.crash.repeated))
        return self.told(found)

    @property
    def waking_pods(self) -> Sequence[PodView]:
        """Pods whose steps are those of a wake, whatever they run."""
        return [pod for pod in self.pods if pod.counts]

    @property
    def missing(self) -> str:
        """How many of its replicas are ready, where they are not all."""
        ready, wanted = len(self.ready), self.server.spec.replicas
        return f"{ready} of {wanted} replicas ready" if ready < wanted else ""

    @property
    def doing(self) -> str:
        """What is waited for."""
        if self.in_line:
            return waiting(self.seen.own_turn.after, self.seen.own_turn)
        if self.seen.deployment is None or not self.current_pods:
            return "its pods are being made"
        if self.ready_now:
            return self.silent or "its engine is asked for a first answer"
        if any(pod.placed for pod in self.current_pods):
            return "its engine is starting"
        return "its pods wait for a node"
