"""View of an application, derived from its RayService and its Ray pods."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property

from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import text
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.resource import KIND
from daybreak.kinds.serveapplication.objects.groups import fewest_pods
from daybreak.kinds.serveapplication.objects.pods import drain_seconds
from daybreak.kinds.serveapplication.objects.serve_config import application_names
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.problems.pod_problems import pod_problem
from daybreak.problems.pod_refusals import PodFields
from daybreak.problems.problem import Problem
from daybreak.problems.serve_problems import deployment_problem, service_problem
from daybreak.ray.views.ray_pods import HEAD, PodView
from daybreak.ray.views.ray_service_view import HEALTHY, NOT_STARTED, RUNNING, Application, RayView, ray_view
from daybreak.scheduling.turn_words import waiting
from daybreak.workloads import view
from daybreak.workloads.view import address

WORKER = PodFields("spec.workerGroups[].podTemplate", "ray", "spec.workerGroups[]")
"""Fields of an application's worker pods."""
_ON_ITS_WAY = ("DEPLOYING", NOT_STARTED)
"""Serve's states of an application that it changes, also while its replicas continue to answer."""


class View(view.View[Observed, ServeApplication]):
    """View of a ServeApplication: its observation with derived facts."""

    noun = "application"
    kind = KIND
    fits = "the head and a pod of each worker group"

    @property
    def application(self) -> ServeApplication:
        """Return the ServeApplication."""
        return self.subject

    @property
    def url(self) -> str:
        """Return the base URL for clients in the cluster."""
        own = self.application
        return address(own.protocol, own.name, own.namespace)

    @property
    def made(self) -> bool:
        """Return True if the application has a RayService."""
        return self.observed.ray_service is not None

    @cached_property
    def ray(self) -> RayView:
        """Return the state that KubeRay and Ray Serve report."""
        return ray_view(self.observed.ray_service, application_names(self.application))

    @cached_property
    def current_pods(self) -> Sequence[PodView]:
        """Return the pods, head included, of the Ray cluster that shows the state of the current spec."""
        return [pod for pod in self.pods if pod.counts and pod.cluster == self.ray.coming]

    @property
    def serve(self) -> Application | None:
        """Return the state of the application that Serve reports in that cluster."""
        return self.ray.coming_application

    @property
    def given_back(self) -> SleepDepth | None:
        """Return the depth to which pods are absent: in sleep, without code, or behind others in a queue."""
        state = self.observed.sleep_state
        if not self.made and (self.queued or self.without_code):
            return SleepDepth.CLUSTER
        if state is not None and state.asleep is not None:
            return state.asleep
        return self.observed.sleep_policy.depth if self.queued else None

    @property
    def answered(self) -> str:
        """Return the existing Ray cluster in which the application has run; empty if there is none."""
        if self.observed.asleep:
            return ""
        running = self.ray.application is not None and self.ray.application.status == RUNNING
        if running and self.ray.ready and not self.ray.upgrading and self._replicas_are_back:
            return self.ray.active
        before = text(self.observed.status.get("probedConfiguration"))
        return before if before and before == self.ray.active else ""

    @property
    def _replicas_are_back(self) -> bool:
        """Return True if replicas that slept while the head stayed are back; Serve reports RUNNING anyway."""
        gate = self.observed.gate
        wake = gate.wake if gate is not None else None
        if wake is None or not wake.under_way or wake.depth is not SleepDepth.WORKERS:
            return True
        there = {pod.group for pod in self.current_pods if pod.ready}
        pods = all(name in there for name, fewest in fewest_pods(self.application).items() if fewest)
        message = self.ray.application.deployments.values() if self.ray.application is not None else ()
        return self.ray.observed and pods and all(each.status == HEALTHY for each in message)

    @property
    def answering(self) -> bool:
        """Return True if requests are answered."""
        if (
            self.observed.asleep
            or not self.ray.ready
            or not self.ray.active
            or self.answered != self.ray.active
        ):
            return False
        if self.ray.upgrading:
            # KubeRay does not report on the active cluster then, which continues.
            return True
        report = self.ray.application
        return report is not None and report.status in (RUNNING, *_ON_ITS_WAY)

    @property
    def ask(self) -> bool:
        """Return False: Serve's report is used, because no probe fits an application of any protocol."""
        return False

    @property
    def silent(self) -> str:
        """Return an empty text, because the application is not probed."""
        return ""

    @property
    def updating(self) -> bool:
        """Return True if a change of an awake application is in progress."""
        report = self.ray.application
        changing = report is not None and report.status in _ON_ITS_WAY
        return self.made and bool(self.answered) and (self.ray.upgrading or not self.ray.observed or changing)

    @property
    def drain(self) -> timedelta:
        """Return the time that requests in progress may take when a pod stops."""
        return timedelta(seconds=drain_seconds(self.application))

    @cached_property
    def problem(self) -> Problem | None:
        """Return the problem that keeps the application from running, preferably one that requires action."""
        if self.observed.asleep:
            return None
        found = [self._no_code, service_problem(self.ray, self.observed.ray_clusters, self.pods, WORKER)]
        if self.serve is not None:
            found += [deployment_problem(each) for each in self.serve.deployments.values()]
        found += [pod_problem(pod) for pod in self.current_pods if pod.role != HEAD]
        return self.reported(found)

    @property
    def without_code(self) -> bool:
        """Return True if the code is missing or not looked up yet: pods would wait for it silently."""
        return self.observed.code is not None and (self.observed.code.missing or self.observed.code.awaited)

    @property
    def _no_code(self) -> Problem | None:
        requested, content = self.observed.requested, self.observed.requested_code
        code = requested.spec.code if requested is not None else None
        if content is None or not content.missing or code is None:
            return None
        where = f"which spec.code names, is not in namespace {self.application.namespace}"
        return Problem(
            Reason.CODE_NOT_FOUND, f"ConfigMap {code.config_map}, {where}: create it", stalled=True
        )

    @property
    def missing(self) -> str:
        """Return an empty text: Serve decides on the number of replicas."""
        return ""

    @property
    def doing(self) -> str:
        """Return the progress of the application for display."""
        if self.in_line:
            return waiting(self.observed.own_turn.after, self.observed.own_turn)
        if self.without_code and not self.made:
            return "its code is being looked for"
        heads = [pod for pod in self.current_pods if pod.role == HEAD]
        if not self.ray.coming or not heads:
            return "its Ray cluster is being made"
        if not any(pod.ready for pod in heads):
            return "its Ray head is starting"
        if self.serve is None:
            return "Ray Serve is starting"
        waits = [name for name, each in self.serve.deployments.items() if each.status != HEALTHY]
        if waits:
            return f"its deployments are starting: {', '.join(sorted(waits))}"
        return "its code is being imported" if self.serve.status != RUNNING else "Ray Serve is starting"
