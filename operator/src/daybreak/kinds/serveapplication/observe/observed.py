"""Everything that one reconcile of a ServeApplication decides on."""

from dataclasses import dataclass, replace
from functools import cached_property

from daybreak.api.common.unstructured import Manifest
from daybreak.api.gates.sleep import Sleep, SleepDepth
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.gates.one_gate import observed
from daybreak.gates.state_machine import SleepPolicy


@dataclass(frozen=True)
class Observed(observed.Observed[ServeApplication]):
    """What is seen of a ServeApplication at one moment."""

    kuberay_installed: bool = True
    ray_service: Manifest | None = None
    ray_clusters: tuple[Manifest, ...] = ()

    @cached_property
    def sleep_policy(self) -> SleepPolicy:
        """What the person wants at this time. Also by force the whole Ray cluster goes."""
        policy = super().sleep_policy
        if policy.sleep is None and policy.must_sleep:
            return replace(policy, sleep=Sleep(depth=SleepDepth.CLUSTER))
        return policy
