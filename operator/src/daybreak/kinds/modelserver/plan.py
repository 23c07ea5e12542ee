"""What a ModelServer's objects should be, beside what they are."""

from dataclasses import dataclass
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.api.modelserver.definition import MODEL_SERVERS, ModelServer
from daybreak.controller.writer import Target, is_of_predecessor, surplus_of
from daybreak.kinds.modelserver.decide import autoscaling
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.objects.deployment import configuration
from daybreak.kinds.modelserver.objects.desired import desired
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kube.apply import Applier, is_controlled_by, is_orphan_of
from daybreak.kube.cache import Cache, Key
from daybreak.kube.resources import DEPLOYMENTS, OF_SERVERS, of
from daybreak.platform import Platform


@dataclass(frozen=True)
class Plan:
    """What a server's objects should be, and what stands in the way."""

    targets: tuple[Target, ...]
    surplus: tuple[dict[str, Any], ...]
    """Objects of ours that it does not have any more."""
    foreign: tuple[str, ...]
    """Names that somebody else has taken, as `Kind/name`."""
    leaving: bool
    """Whether objects of a deleted server of the same name are still there."""


async def make_plan(
    seen: Observed, server: ModelServer, platform: Platform, cache: Cache, applier: Applier
) -> Plan:
    """The plan for a server."""
    view = View(seen, server)
    targets: list[Target] = []
    foreign: list[str] = []
    leaving = False
    objects = desired(server, platform, seen.gateway.port if seen.gateway else None, _replicas(view))
    for wanted in objects:
        live = await applier.live(wanted)
        if live is not None and not is_controlled_by(live, server.uid):
            if is_of_predecessor(live, MODEL_SERVERS, server.name, server.uid):
                leaving = True
            elif not is_orphan_of(live, server.owner):
                foreign.append(f"{wanted['kind']}/{wanted['metadata']['name']}")
        elif live is not None and of(wanted) is DEPLOYMENTS and _stays(view, wanted, live):
            wanted["spec"]["template"] = live["spec"]["template"]
        targets.append(Target(wanted, live))
    surplus = surplus_of(cache, Key(server.namespace, server.owner), server.uid, OF_SERVERS, objects)
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving)


def _replicas(view: View) -> int:
    """Pods that there are to be: none in sleep, and none as long as others come first."""
    return 0 if view.seen.asleep or view.queued else autoscaling.replicas(view)


def _stays(view: View, wanted: Manifest, live: Manifest) -> bool:
    """Whether what runs goes on as it is though this operator would build it otherwise.

    It does where the person has changed nothing of it, and it answers.
    """
    said, was = (
        text(at(each, "metadata", "annotations").get(names.WISHES_ANNOTATION)) for each in (wanted, live)
    )
    return said == was and configuration(wanted) != configuration(live) and view.answering
