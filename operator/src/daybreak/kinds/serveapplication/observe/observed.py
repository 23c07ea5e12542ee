"""Everything that one reconcile of a ServeApplication decides on."""

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
    """What is seen of a ServeApplication at one moment."""

    kuberay_installed: bool = True
    ray_service: Manifest | None = None
    ray_clusters: tuple[Manifest, ...] = ()
    written: ServeApplication | None = None
    """The application as the person has written it, where `subject` is built of another revision; None: it is
    as written."""
    history: History | None = None
    """Its revisions; None: its spec cannot be read, or its code has not been looked for."""
    contents: Mapping[str, Content] = field(default_factory=dict)
    """What is known of ConfigMaps with code, by their names."""

    @property
    def asked_for(self) -> ServeApplication | None:
        """The application as the person has written it."""
        return self.written or self.subject

    @property
    def target(self) -> ServeApplication | None:
        """The application as it is asked for; None when that cannot be read."""
        asked, wanted = self.asked_for, self.history.wanted if self.history is not None else None
        if asked is None or wanted is None or (self.history is not None and wanted == self.history.own):
            return asked
        return built_of(asked, wanted)

    @property
    def code(self) -> Content | None:
        """What is known of the ConfigMap with the code that is built; None: the code comes from elsewhere."""
        return self._content(self.subject)

    @property
    def code_asked_for(self) -> Content | None:
        """The same of the code that the person asks for."""
        return self._content(self.asked_for)

    def _content(self, application: ServeApplication | None) -> Content | None:
        code = application.spec.code if application is not None else None
        if code is None or code.config_map is None:
            return None
        return self.contents.get(code.config_map, Content(awaited=True))

    def misfits_of(self, subject: ServeApplication, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """What of one fits on no node."""
        return fit.misfits(subject, nodes)

    def policy(self, gate: str, sleep: Sleep | None) -> SleepPolicy:
        """Return when it may sleep at this time. Also by force the whole Ray cluster goes."""
        policy = super().policy(gate, sleep)
        if policy.sleep is None and policy.must_sleep:
            return replace(policy, sleep=Sleep(depth=SleepDepth.CLUSTER))
        return policy
