"""Fit check of an application: its questions about the nodes, and the terms of its messages.

A pod of a worker group has one replica of each deployment of the group. The fields that a user can change are
in `deployments`, `accelerator` and `workerGroups`, not in models.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from daybreak.api.ray.model import Model
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.deployment import Deployment, Strategy
from daybreak.api.serveapplication.groups import Group, of_replica
from daybreak.scheduling import fit, room
from daybreak.scheduling.fit import Misfit, Question
from daybreak.scheduling.nodes import Node, Split, Terms

_LISTED = 4
"""Maximum number of deployments of a group that a message names."""
_PACKED = (Strategy.PACK, Strategy.STRICT_PACK)


def questions(application: ServeApplication) -> list[Question]:
    """Return the fit check's questions about the nodes."""
    return fit.questions(application.workload, _terms(application))


def misfits(application: ServeApplication, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
    """Return the pods that fit on no node: the head, or a pod of a worker group."""
    return fit.fit(application.workload, nodes, _terms(application))


def crowded(application: ServeApplication, nodes: tuple[Node, ...], booked: room.Booked) -> str:
    """Return why a second Ray cluster has no capacity now; empty if it has.

    The second cluster starts with the minimum number of pods.
    """
    pods = {group.name: group.fewest for group in application.groups}
    # For a model the check counts replicas, each with all of its pods.
    pods |= {model.name: max(model.replicas.min, 1) for model in application.spec.llms}
    return room.crowded(application.workload, pods, nodes, booked, _terms(application))


def _terms(application: ServeApplication) -> Callable[[Model], Terms]:
    groups = {group.name: group for group in application.groups}
    written = {group.name for group in application.spec.worker_groups}

    def terms(pod: Model) -> Terms:
        if pod.name not in groups:
            number = next(at for at, each in enumerate(application.spec.llms) if each.name == pod.name)
            own = f"spec.llms[{number}]"
            return replace(
                fit.of_models(pod),
                fields=f"{own}.accelerator",
                resource=f"{own}.accelerator.resource",
                sizes=f"{own}.resources.{{}}",
                template=f"{own}.podTemplate",
            )
        group = groups[pod.name]
        own = f"spec.workerGroups[{group.name}]"
        if group.name in written:
            return Terms(
                noun="worker group",
                who="a pod",
                fields=own,
                resource="spec.accelerator.resource",
                without=f"set {own}.accelerators: 0",
                sizes=f"{own}.{{}}",
                fewer=f"lower {own}.accelerators",
                apart=_less(group, own),
            )
        return Terms(
            noun="worker group",
            who=_who(group.deployments),
            fields="spec.accelerator" if group.accelerators else own,
            resource="spec.accelerator.resource",
            without="leave accelerators out of its deployments",
            sizes="{} of its deployments",
            fewer="lower accelerators of its deployments",
            apart=_apart(group),
        )

    return terms


def _who(deployments: Sequence[Deployment]) -> str:
    """Return a description of the pod by its replicas and the accelerators of each."""
    shares = [of_replica(each).accelerators for each in deployments]
    first = next((place for place, share in enumerate(shares) if share), None)
    reported = []
    for place, (each, share) in enumerate(zip(deployments, shares, strict=True)):
        unit = " accelerators" if place == first else ""
        reported.append(f"{each.name} ({share:g}{unit})" if share else each.name)
    if len(reported) > _LISTED:
        reported = [*reported[: _LISTED - 1], f"{len(reported) - _LISTED + 1} more"]
    listed = f"{', '.join(reported[:-1])} and {reported[-1]}" if len(reported) > 1 else reported[0]
    each_of = "a replica each of" if len(reported) > 1 else "a replica of"
    whole = round(sum(shares), 4)
    rounded = "" if whole == int(whole) else ", rounded up to whole devices,"
    return f"a pod with {each_of} {listed}{rounded}"


def _less(group: Group, own: str) -> tuple[Split, ...]:
    """Return the advice to size a worker group's pod by its deployments, or none if it is not larger."""
    needed = max((_devices(of_replica(each).accelerators) for each in group.deployments), default=0)
    how = f"lower {own}.accelerators to {needed}, which is what its deployments need"
    return (Split(needed, how),) if needed < group.accelerators else ()


def _apart(group: Group) -> tuple[Split, ...]:
    """Return the ways to need smaller pods: fewer replicas in one pod, then fewer bundles."""
    found = []
    largest = max(_devices(of_replica(each).accelerators) for each in group.deployments)
    if largest < group.accelerators:
        how = f"give its deployments separate worker groups, of which the largest pod needs {largest}"
        found.append(Split(largest, how))
    packed = [each.placement_group for each in group.deployments if each.placement_group is not None]
    bundles = [bundle for placed in packed if placed.strategy in _PACKED for bundle in placed.bundles]
    alone = len(group.deployments) == 1 and bundles
    if alone and (most := max(_devices(each.accelerators) for each in bundles)) < group.accelerators:
        how = f"set placementGroup.strategy: SPREAD, with which the largest pod needs {most}"
        found.append(Split(most, how))
    return tuple(found)


def _devices(share: float) -> int:
    return math.ceil(round(share, 4))
