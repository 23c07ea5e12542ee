"""Worker groups of an application: the explicit ones, and those that its deployments require."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from daybreak.api.common import names
from daybreak.api.ray.model import (
    Accelerator,
    AcceleratorKind,
    Model,
    Parallelism,
    Placement,
    Replicas,
    WorkerResources,
)
from daybreak.api.schema.scalars import parse_quantity
from daybreak.api.serveapplication.deployment import Bundle, Deployment, Strategy, WorkerGroup
from daybreak.api.serveapplication.spec import ServeApplicationSpec

OF_CPUS = "cpu"
"""Group of all deployments that request no accelerator and name no group."""
_GIB = 2**30
_RAYS_OWN = 2 * _GIB
"""Memory of a pod in bytes for Ray itself, `/dev/shm` included."""
_OF_A_REPLICA = 1 * _GIB
_OF_AN_ACCELERATOR = 16 * _GIB
_SPREAD = (Strategy.SPREAD, Strategy.STRICT_SPREAD)


@dataclass(frozen=True)
class Group:
    """Identical pods, and the deployments that run in them."""

    name: str
    deployments: Sequence[Deployment]
    pod: Model
    """Pod of the group, as the operator builds and places it."""
    accelerators: int
    fewest: int
    """Minimum number of pods."""
    most: int
    """Maximum number of pods."""

    @property
    def ray_cpus(self) -> int:
        """Return the number of CPUs that a pod offers to Ray, which accepts only whole CPUs."""
        return max(1, math.ceil(parse_quantity(self.pod.resources.cpu or "1")))


@dataclass(frozen=True)
class Room:
    """Resources that are required in one pod."""

    cpu: Decimal = Decimal(0)
    memory: Decimal = Decimal(0)
    accelerators: float = 0.0

    def __add__(self, other: "Room") -> "Room":
        return Room(self.cpu + other.cpu, self.memory + other.memory, self.accelerators + other.accelerators)


def groups(spec: ServeApplicationSpec) -> list[Group]:
    """Return the groups of an application, in a fixed order."""
    written = {group.name: group for group in spec.worker_groups}
    members: dict[str, list[Deployment]] = {name: [] for name in written}
    for deployment in spec.deployments:
        members.setdefault(group_of(deployment), []).append(deployment)
    return [_group(name, own, written.get(name), spec) for name, own in members.items()]


def group_of(deployment: Deployment) -> str:
    """Return the name of the group in which a deployment runs."""
    if deployment.worker_group is not None:
        return deployment.worker_group
    return names.worker_group(deployment.name) if of_replica(deployment).accelerators else OF_CPUS


def of_replica(deployment: Deployment) -> Room:
    """Return the resources that a replica requires in one pod.

    If each bundle is in its own pod, these are the resources of the largest bundle.
    """
    accelerators = deployment.accelerators
    memory = _memory(deployment)
    placed = deployment.placement_group
    if placed is None:
        return Room(parse_quantity(deployment.cpu), memory, accelerators)
    rooms = [_bundle(bundle) for bundle in placed.bundles]
    if placed.strategy in _SPREAD:
        largest = max(rooms, key=lambda room: (room.accelerators, room.cpu))
        return Room(max(room.cpu for room in rooms), memory, largest.accelerators)
    whole = sum(rooms, Room())
    return Room(whole.cpu, memory, whole.accelerators)


def pods_of_replica(deployment: Deployment) -> int:
    """Return the maximum number of pods of one replica."""
    placed = deployment.placement_group
    return len(placed.bundles) if placed is not None and placed.strategy in _SPREAD else 1


def _memory(deployment: Deployment) -> Decimal:
    if deployment.memory is not None:
        return parse_quantity(deployment.memory)
    placed = deployment.placement_group
    shares = deployment.accelerators if placed is None else sum(each.accelerators for each in placed.bundles)
    return Decimal(_OF_A_REPLICA + math.ceil(_OF_AN_ACCELERATOR * shares))


def _bundle(bundle: Bundle) -> Room:
    return Room(parse_quantity(bundle.cpu), Decimal(0), bundle.accelerators)


def _group(
    name: str, members: Sequence[Deployment], written: WorkerGroup | None, spec: ServeApplicationSpec
) -> Group:
    """Return one group.

    Unless the group is explicit, a pod has capacity for one replica of each of its deployments.
    """
    most = max(1, sum(each.most * pods_of_replica(each) for each in members))
    if written is not None:
        resources = WorkerResources(
            cpu=written.cpu, memory=written.memory, shared_memory=written.shared_memory
        )
        accelerators, fewest = written.accelerators, written.min_pods
        most = max(fewest, most if written.max_pods is None else written.max_pods)
    else:
        room = sum((of_replica(each) for each in members), Room())
        # Fractions that add up to 1 in decimal may exceed 1 in floating point.
        accelerators = math.ceil(round(room.accelerators, 4))
        mebibytes = math.ceil((room.memory + _RAYS_OWN) / 2**20)
        resources = WorkerResources(cpu=_cores(room.cpu), memory=f"{mebibytes}Mi")
        fewest = max(each.fewest * pods_of_replica(each) for each in members)
    pod = Model(
        name=name,
        source="file:///code",
        accelerator=_accelerator(accelerators, written, spec),
        parallelism=Parallelism(tensor=max(1, accelerators)),
        placement=Placement.STRICT_PACK,
        resources=resources,
        replicas=Replicas(min=fewest, max=max(1, most)),
        pod_template=None if written is None else written.pod_template,
    )
    return Group(name, members, pod, accelerators, fewest, most)


def _accelerator(number: int, written: WorkerGroup | None, spec: ServeApplicationSpec) -> Accelerator:
    devices = spec.accelerator
    selector = dict(devices.node_selector) if number else {}
    tolerations = list(devices.tolerations) if number else []
    if written is not None and written.node_selector is not None:
        selector = dict(written.node_selector)
    if written is not None and written.tolerations is not None:
        tolerations = list(written.tolerations)
    kind = AcceleratorKind.GPU if number else AcceleratorKind.CPU
    return Accelerator(kind=kind, resource=devices.resource, node_selector=selector, tolerations=tolerations)


def _cores(cores: Decimal) -> str:
    return f"{math.ceil(cores * 1000)}m" if cores != int(cores) else str(int(cores))


def by_deployment(found: Iterable[Group]) -> Mapping[str, Group]:
    """Return the group of each deployment, by the deployment's name."""
    return {each.name: group for group in found for each in group.deployments}
