"""What a ServeApplication's objects should be, beside what they are."""

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.api.serveapplication.definition import SERVE_APPLICATIONS
from daybreak.controller.plan import Owner, Plan, Target, Whose, named
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.objects.desired import desired
from daybreak.kube.resources import OF_APPLICATIONS, RAY_SERVICES, of
from daybreak.kube.watching.cache import Cache, Key
from daybreak.kube.writing.apply import Applier
from daybreak.platform import Platform


async def make_plan(view: View, platform: Platform, cache: Cache, applier: Applier) -> Plan:
    """The plan for an application."""
    seen, application = view.seen, view.application
    owner = Owner(SERVE_APPLICATIONS, Key(application.namespace, application.name), application.uid)
    targets: list[Target] = []
    foreign: list[str] = []
    leaving = False
    port = seen.gateway.port if seen.gateway is not None else None
    without = seen.asleep or view.queued or (view.without_code and not view.made)
    objects = desired(application, platform, port, asleep=without, code=_code(view))
    for wanted in objects:
        live = await applier.live(wanted)
        whose = owner.whose(live) if live is not None else None
        if whose is Whose.PREDECESSORS or (live is not None and _goes(wanted, live)):
            leaving = True
        elif whose is Whose.FOREIGN:
            foreign.append(named(wanted))
        elif whose is Whose.OURS and live is not None and _stays(view, wanted, live):
            wanted["spec"]["rayClusterConfig"] = live["spec"]["rayClusterConfig"]
        targets.append(Target(wanted, live))
    surplus = owner.surplus(cache, OF_APPLICATIONS, objects)
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving)


def _code(view: View) -> str:
    """Digest of the code that its pods are to have: what they have, where no other is known."""
    if view.seen.code is None:
        return ""
    return view.seen.code.digest or _said(view.seen.ray_service, names.CODE_ANNOTATION)


def _said(manifest: Manifest | None, annotation: str) -> str:
    return text(at(manifest, "metadata", "annotations").get(annotation))


def _goes(wanted: Manifest, live: Manifest) -> bool:
    """Whether the Ray cluster of the time before a sleep is still on its way out."""
    return of(wanted) is RAY_SERVICES and bool(at(live, "metadata").get("deletionTimestamp"))


def _stays(view: View, wanted: Manifest, live: Manifest) -> bool:
    """Whether the pods that run go on as they are though this operator would build them otherwise.

    They do where the person has changed nothing of them, nor of their code, and they answer. Pods that say
    nothing of their code count as pods of the first that is seen.
    """
    if of(wanted) is not RAY_SERVICES:
        return False
    said, was = (_said(each, names.WISHES_ANNOTATION) for each in (wanted, live))
    code, had = (_said(each, names.CODE_ANNOTATION) for each in (wanted, live))
    return said == was and had in ("", code) and view.answering
