"""Plan for a ServeApplication's objects, from the desired and live objects."""

from collections.abc import Sequence
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.objects.desired import desired
from daybreak.kinds.serveapplication.objects.revisions import controller_revision, files_of
from daybreak.manifests.keys import Key
from daybreak.manifests.owner import NameHolder, Owner
from daybreak.manifests.plan import Live, Plan, Target, named
from daybreak.manifests.resources import CONTROLLER_REVISIONS, OF_APPLICATIONS, RAY_SERVICES, of
from daybreak.platform import Platform
from daybreak.rollouts import revisions


def objects(view: View, platform: Platform) -> list[dict[str, Any]]:
    """Return the desired objects of an application, first those that others need."""
    port = view.observed.gateway.port if view.observed.gateway is not None else None
    return [
        *(each for each in _revisions(view) if each["metadata"]["name"] in _in_use(view)),
        *desired(view.application, platform, port, asleep=view.given_back, code=_code(view)),
    ]


def make_plan(view: View, desired_objects: Sequence[dict[str, Any]], live_objects: Live) -> Plan:
    """Return the plan for an application, from its desired and live objects."""
    observed, application = view.observed, view.application
    owner = Owner(SERVE_APPLICATIONS, Key(application.namespace, application.name), application.uid)
    targets: list[Target] = []
    foreign: list[str] = []
    leaving = False
    kept = [*desired_objects, *_revisions(view)]
    for expected in desired_objects:
        live = live_objects.find(expected)
        whose = owner.whose(live) if live is not None else None
        if whose is NameHolder.PREDECESSORS or (live is not None and _goes(expected, live)):
            leaving = True
        elif whose is NameHolder.OURS and live is not None and _is_made_anew(view, expected, live):
            kept.remove(expected)
            continue
        elif whose is NameHolder.FOREIGN:
            foreign.append(named(expected))
        elif whose is NameHolder.OURS and live is not None and _stays(view, expected, live):
            expected["spec"]["rayClusterConfig"] = live["spec"]["rayClusterConfig"]
            configured = _annotation(live, names.RAY_CLUSTER_ANNOTATION)
            expected["metadata"]["annotations"][names.RAY_CLUSTER_ANNOTATION] = configured
        targets.append(Target(expected, live))
    # While the needed revisions are unknown, all stay.
    kinds = [
        each for each in OF_APPLICATIONS if each is not CONTROLLER_REVISIONS or observed.history is not None
    ]
    surplus = live_objects.surplus(owner, kinds, kept)
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving)


def _revisions(view: View) -> list[dict[str, Any]]:
    """Return the ControllerRevisions to keep or to create."""
    history = view.observed.history
    if history is None:
        return []
    limit = history.rollout.revision_history_limit
    stay = revisions.kept(history.revisions, history.in_use, limit)
    return [controller_revision(view.application, each) for each in stay]


def _in_use(view: View) -> frozenset[str]:
    return view.observed.history.in_use if view.observed.history is not None else frozenset()


def _code(view: View) -> str:
    """Return the digest of the desired code, or that of the live code if no other is known."""
    if view.observed.code is None:
        return ""
    built = view.observed.history.built if view.observed.history is not None else None
    known = files_of(built) if built is not None else view.observed.code.digest
    return known or _annotation(view.observed.ray_service, names.CODE_ANNOTATION)


def _annotation(manifest: Manifest | None, annotation: str) -> str:
    return text(at(manifest, "metadata", "annotations").get(annotation))


def _goes(desired: Manifest, live: Manifest) -> bool:
    """Return True if the Ray cluster from before a sleep is still being deleted."""
    return of(desired) is RAY_SERVICES and bool(at(live, "metadata").get("deletionTimestamp"))


def _is_made_anew(view: View, desired: Manifest, live: Manifest) -> bool:
    """Return True if an outdated Ray cluster without workers must be deleted and then recreated.

    A second head alongside it would serve no requests.
    """
    if of(desired) is not RAY_SERVICES or view.given_back is not SleepDepth.WORKERS:
        return False
    message, was = (_annotation(each, names.RAY_CLUSTER_ANNOTATION) for each in (desired, live))
    return message != was


def _stays(view: View, desired: Manifest, live: Manifest) -> bool:
    """Return True if running pods stay unchanged although this operator would build them differently.

    They stay if the user has changed neither their settings nor their code, and if they answer. Pods without
    a record of their code count as pods of the first observed code.
    """
    if of(desired) is not RAY_SERVICES:
        return False
    message, was = (_annotation(each, names.WISHES_ANNOTATION) for each in (desired, live))
    code, had = (_annotation(each, names.CODE_ANNOTATION) for each in (desired, live))
    return message == was and had in ("", code) and view.answering
