"""What one reconcile has seen of a service, gathered once: the only input of every decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from daybreak.api.common.unstructured import Manifest, mapping
from daybreak.api.llmservice.definition import LLMService
from daybreak.gates.sleep_policy import sleep_policy, sleep_state_or_start
from daybreak.gates.state_machine import SleepPolicy, SleepState
from daybreak.gates.traffic import Traffic
from daybreak.scheduling.nodes import Node


@dataclass(frozen=True)
class Answer:
    """How a model answered when it was asked: at the Ray head if there is a gateway, else at its address."""

    model: str
    answered: bool
    message: str = ""
    """Why not, in one sentence; empty when it answered."""


@dataclass(frozen=True)
class AdapterReport:
    """What one replica says of one LoRA adapter."""

    id: str
    """Digest of what was asked for."""
    state: str
    """`Loading`, `Loaded`, `Refused` or `Failed`."""
    reason: str = ""
    """Why it cannot be used."""


Reports = Mapping[str, Mapping[str, AdapterReport]]
"""What replicas say of their adapters: by the pod's name, then by the adapter's."""


@dataclass(frozen=True)
class GatewayView:
    """The gateway of the service's namespace, as far as it concerns the service."""

    port: int
    """The gateway's port for the service."""
    traffic: Traffic


@dataclass(frozen=True)
class Observed:
    """Everything seen of one LLMService at one moment."""

    manifest: Manifest
    """The LLMService itself, status included."""
    service: LLMService | None
    """The same, read; None when the spec cannot be read."""
    problems: tuple[str, ...]
    """What is wrong with the spec, each as one sentence with the field's path; empty when it can be built."""
    kuberay_installed: bool
    """Whether the API server serves ray.io/v1 RayServices."""
    foreign: tuple[str, ...] = ()
    """Objects that bear a name Daybreak needs and belong to somebody else, as `Kind/name`."""
    ray_service: Manifest | None = None
    ray_clusters: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    """The Ray pods, of every RayCluster of the service, and those of its Jobs."""
    jobs: tuple[Manifest, ...] = ()
    """The Jobs that copy weights into claims; their pods are among `pods`."""
    claims: tuple[Manifest, ...] = ()
    """The PersistentVolumeClaims that Daybreak has made."""
    nodes: tuple[Node, ...] | None = None
    """None: the operator may not see nodes."""
    refusal: str = ""
    """What the API server said when it refused the last apply of an owned object; empty when it took all."""
    answers: tuple[Answer, ...] = ()
    """Answers asked for in this reconcile."""
    reports: Reports = field(default_factory=dict)
    """What the replicas that have been heard say of their adapters."""
    gateway: GatewayView | None = None
    """None: services are reached without a gateway, and never sleep."""
    now: datetime = field(kw_only=True)

    @property
    def sleep_policy(self) -> SleepPolicy | None:
        """What the person wants of its sleep at this time; None when the spec cannot be read."""
        if self.service is None:
            return None
        return sleep_policy(self.manifest, self.service.spec.sleep, self.service.spec.state, self.now)

    @property
    def sleep_state(self) -> SleepState:
        """What was decided of its sleep, or the beginning."""
        return sleep_state_or_start(self.status, self.now, self.sleep_policy)

    @property
    def status(self) -> Mapping[str, Any]:
        """The LLMService's status as it stands; empty when it has none."""
        return mapping(self.manifest.get("status"))
