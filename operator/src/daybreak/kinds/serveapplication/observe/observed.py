"""All inputs of one reconcile of a ServeApplication."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from daybreak.api.common.config_map import Content
from daybreak.api.common.unstructured import Manifest
from daybreak.api.gates.sleep import Sleep, SleepDepth
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.gates.sleep_state import SleepPolicy
from daybreak.kinds.serveapplication.objects.revisions import built_of
from daybreak.kinds.serveapplication.observe import fit
from daybreak.rollouts.history import History
from daybreak.scheduling.fit import Misfit
from daybreak.scheduling.nodes import Node
from daybreak.workloads import observed


@dataclass(frozen=True)
class Observed(observed.OneGate[ServeApplication]):
    """Observation of a ServeApplication at one time."""

    kuberay_installed: bool = True
    ray_service: Manifest | None = None
    ray_clusters: tuple[Manifest, ...] = ()
    written: ServeApplication | None = None
    """Application as the user has written it, if `subject` is built from another revision. None if `subject`
    is as written."""
    history: History | None = None
    """Revisions of the application. None if its spec is invalid, or if its code has not been looked up."""
    contents: Mapping[str, Content] = field(default_factory=dict)
    """Known contents of ConfigMaps with code, by name."""

    @property
    def requested(self) -> ServeApplication | None:
        """Return the application as the user has written it."""
        return self.written or self.subject

    @property
    def target(self) -> ServeApplication | None:
        """Return the application as requested, or None if the requested revision is invalid."""
        requested, desired = self.requested, self.history.desired if self.history is not None else None
        if requested is None or desired is None or (self.history is not None and desired == self.history.own):
            return requested
        return built_of(requested, desired)

    @property
    def code(self) -> Content | None:
        """Return the content of the ConfigMap with the built code, or None if the code has another source."""
        return self._content(self.subject)

    @property
    def requested_code(self) -> Content | None:
        """Return the content of the ConfigMap with the requested code, or None for another source."""
        return self._content(self.requested)

    def _content(self, application: ServeApplication | None) -> Content | None:
        code = application.spec.code if application is not None else None
        if code is None or code.config_map is None:
            return None
        return self.contents.get(code.config_map, Content(awaited=True))

    def misfits_of(self, subject: ServeApplication, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """Return the pods of an application that fit on no node."""
        return fit.misfits(subject, nodes)

    def policy(self, gate: str, sleep: Sleep | None) -> SleepPolicy:
        """Return the current sleep policy. A forced sleep also releases the whole Ray cluster."""
        policy = super().policy(gate, sleep)
        if policy.sleep is None and policy.must_sleep:
            return replace(policy, sleep=Sleep(depth=SleepDepth.CLUSTER))
        return policy
