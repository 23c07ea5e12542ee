"""What the objects of one that becomes one job should be, beside what they are."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.manifests.owner import Owner, Whose
from daybreak.manifests.plan import Live, Plan, Target, named
from daybreak.manifests.resources import of

Stays = Callable[[Manifest, Manifest, Whose], bool]
"""Whether a job that is there stays as it is to its end: as it should be, as it is, and whose it is."""


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
        desired: Its objects as they should be.
        owned: Kinds of objects that it may have, as far as the API server knows them.
        job: The kind of its job.
        stays: Whether an object of its is left as it is.
        live_objects: Its objects as they are.
    """
    targets: list[Target] = []
    left_over: list[dict[str, Any]] = []
    foreign: list[str] = []
    leaving = False
    for wanted in desired:
        if of(wanted) not in owned:
            continue
        live = live_objects.find(wanted)
        if live is not None:
            whose = owner.whose(live)
            if live["metadata"].get("deletionTimestamp") or whose is Whose.PREDECESSORS:
                leaving = True
                continue
            if whose is Whose.ORPHAN and of(wanted) is job:
                # What runs there speaks for an object that has gone: it cannot be this one's.
                left_over.append(live)
                leaving = True
                continue
            if whose is Whose.FOREIGN:
                foreign.append(named(wanted))
            elif stays(wanted, live, whose):
                continue
        targets.append(Target(wanted, live))
    surplus = live_objects.surplus(owner, owned, desired)
    return Plan(tuple(targets), (*surplus, *left_over), tuple(foreign), leaving)
