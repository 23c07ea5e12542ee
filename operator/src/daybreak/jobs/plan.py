"""Plan of the changes from the live to the desired objects of an object that creates one job."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.manifests.owner import NameHolder, Owner
from daybreak.manifests.plan import Live, Plan, Target, named
from daybreak.manifests.resources import of

Stays = Callable[[Manifest, Manifest, NameHolder], bool]
"""Function that returns True if a live job stays unchanged until it ends.

Its arguments are the desired object, the live object and the ownership.
"""


def make_plan(
    owner: Owner,
    desired: Sequence[dict[str, Any]],
    owned: Collection[Resource],
    job: Resource,
    stays: Stays,
    live_objects: Live,
) -> Plan:
    """Return the plan for an object.

    Args:
        owner: The object.
        desired: Its desired objects.
        owned: Kinds of objects that it may own, as far as the API server knows them.
        job: The kind of its job.
        stays: Returns True if one of its objects stays unchanged.
        live_objects: Its live objects.
    """
    targets: list[Target] = []
    left_over: list[dict[str, Any]] = []
    foreign: list[str] = []
    leaving = False
    for expected in desired:
        if of(expected) not in owned:
            continue
        live = live_objects.find(expected)
        if live is not None:
            whose = owner.whose(live)
            if live["metadata"].get("deletionTimestamp") or whose is NameHolder.PREDECESSORS:
                leaving = True
                continue
            if whose is NameHolder.ORPHAN and of(expected) is job:
                # The running job reports for a deleted object, and cannot belong to this one.
                left_over.append(live)
                leaving = True
                continue
            if whose is NameHolder.FOREIGN:
                foreign.append(named(expected))
            elif stays(expected, live, whose):
                continue
        targets.append(Target(expected, live))
    surplus = live_objects.surplus(owner, owned, desired)
    return Plan(tuple(targets), (*surplus, *left_over), tuple(foreign), leaving)
