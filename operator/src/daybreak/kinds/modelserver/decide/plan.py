"""Plan for a ModelServer's objects, from the desired and live objects."""

from collections.abc import Sequence
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.kinds.modelserver.decide import autoscaling, rollout
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.objects.deployment import configuration, listens, with_pods_of
from daybreak.kinds.modelserver.objects.desired import desired
from daybreak.kinds.modelserver.objects.revisions import controller_revision
from daybreak.manifests.keys import Key
from daybreak.manifests.owner import NameHolder, Owner
from daybreak.manifests.plan import Live, Plan, Target, named
from daybreak.manifests.resources import DEPLOYMENTS, LEADER_WORKER_SETS, OF_SERVERS, of
from daybreak.platform import Platform
from daybreak.rollouts import revisions


def objects(view: View, platform: Platform) -> list[dict[str, Any]]:
    """Return the desired objects of a server, first those that others need."""
    port = view.observed.gateway.port if view.observed.gateway else None
    needed, _ = _revisions(view)
    return [*needed, *desired(view.server, platform, port, _replicas(view), unproven=_unproven(view))]


def group_service(server: ModelServer) -> Manifest | None:
    """Return the Service that LeaderWorkerSet creates for pods on several nodes, without its spec.

    LeaderWorkerSet creates that Service only if no Service has the name. Otherwise its pods would wait
    forever for an address that no Service provides.
    """
    name = names.server_deployment(server.name)
    metadata = {"namespace": server.namespace, "name": name}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata} if server.spec.nodes > 1 else None


def make_plan(view: View, objects: Sequence[dict[str, Any]], live_objects: Live) -> Plan:
    """Return the plan for a server, from its desired and live objects."""
    server = view.server
    owner = Owner(MODEL_SERVERS, Key(server.namespace, server.name), server.uid)
    targets: list[Target] = []
    foreign = []
    leaving = False
    group = group_service(server)
    if group is not None and live_objects.find(group) is not None:
        foreign.append(named(group))
    _, kept = _revisions(view)
    for expected in objects:
        live = live_objects.find(expected)
        whose = owner.whose(live) if live is not None else None
        if whose is NameHolder.PREDECESSORS:
            leaving = True
        elif whose is NameHolder.FOREIGN:
            foreign.append(named(expected))
        elif whose is NameHolder.OURS and live is not None and _stays(view, expected, live):
            with_pods_of(expected, live)
        targets.append(Target(expected, live))
    surplus = live_objects.surplus(owner, OF_SERVERS, [*kept, *objects])
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving)


def _unproven(view: View) -> bool:
    """Return True if new pods start alongside others, and no pod like them has answered yet."""
    return view.observed.history is not None and rollout.unproven(view.observed.history.state)


def _revisions(view: View) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the revisions that must exist, and all that are kept."""
    observed, server = view.observed, view.server
    if observed.history is None:
        return [], []
    used, limit = observed.history.in_use, server.spec.rollout.revision_history_limit
    kept = revisions.kept(observed.history.revisions, used, limit)
    found = {each.name: controller_revision(server, each) for each in kept}
    return [found[name] for name in found if name in used], list(found.values())


def _replicas(view: View) -> int:
    """Return the desired number of pods: 0 in sleep, and 0 while other workloads are ahead in the queue."""
    return 0 if view.observed.asleep or view.queued else autoscaling.replicas(view)


def _stays(view: View, desired: Manifest, live: Manifest) -> bool:
    """Return True if running pods stay unchanged although this operator would build them differently.

    They stay if the user has changed none of their settings, if they answer, and if the port and path for
    gateways are unchanged.
    """
    if of(desired) not in (DEPLOYMENTS, LEADER_WORKER_SETS):
        return False
    message, was = (
        text(at(each, "metadata", "annotations").get(names.WISHES_ANNOTATION)) for each in (desired, live)
    )
    other = configuration(desired) != configuration(live)
    return message == was and other and view.answering and listens(desired) == listens(live)
