"""Reconcile of a ModelServer: the parts that differ from other workloads."""

from collections.abc import Sequence
from typing import Any

from daybreak.api.common.unstructured import Manifest, at, text, whole
from daybreak.api.gates.gate_state import GateState
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.controller.asking.prober import Prober, Question
from daybreak.controller.parts import Parts
from daybreak.kinds.modelserver.decide.plan import group_service, make_plan, objects
from daybreak.kinds.modelserver.decide.rollout import unproven
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.functions import FUNCTIONS, view_of
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.observe.observer import Observer
from daybreak.loop import reconciler
from daybreak.manifests.plan import Live, Plan
from daybreak.manifests.resources import OF_SERVERS
from daybreak.workloads.decision import Decided


class Reconciler(reconciler.Reconciler[Observed, View, Plan]):
    """Reconciler that applies a ModelServer to the cluster and reports the result.

    Args:
        parts: Dependencies of every kind.
        observer: Observer of servers.
        prober: Prober of models.
    """

    def __init__(self, parts: Parts, observer: Observer, prober: Prober) -> None:
        super().__init__(parts, observer, FUNCTIONS, OF_SERVERS, prober)

    def objects(self, observed: Observed) -> Sequence[dict[str, Any]]:
        """Return the desired objects of a server."""
        return objects(view_of(observed), self._platform)

    def names_of_others(self, observed: Observed) -> Sequence[Manifest]:
        """Return the Service that another controller creates for a server on several nodes."""
        group = group_service(observed.subject) if observed.subject is not None else None
        return () if group is None else (group,)

    def plan(self, observed: Observed, desired: Sequence[dict[str, Any]], live: Live) -> Plan:
        """Return the plan that changes the live objects into the desired ones."""
        return make_plan(view_of(observed), desired, live)

    def is_due(self, observed: Observed, decided: Decided, status: ModelServerStatus) -> bool:
        """Return True if the number of pods in the status changed, or if pods may be replaced now."""
        other = _replicas(status) != whole(at(observed.status, "autoscaling").get("currentReplicas"))
        before = observed.history.state if observed.history is not None else None
        return other or (unproven(before) and not unproven(status.rollout))

    def questions(self, observed: Observed) -> Sequence[Question]:
        """Return the probe of the server's model."""
        if observed.subject is None:
            return ()
        state = observed.sleep_state
        requested = question(view_of(observed), waking=state is not None and state.gate is not GateState.OPEN)
        return () if requested is None else [requested]


def question(view: View, *, waking: bool) -> Question | None:
    """Return the probe of the engine in one of the ready pods, or None if none of them has an address."""
    server = view.server
    address = min((text(at(pod.manifest, "status").get("podIP")) for pod in view.ready_now), default="")
    if not address:
        return None
    host = f"[{address}]" if ":" in address else address
    path, about = server.answer_path, (server.uid, view.current)
    base = f"http://{host}:{server.profile.port}{'' if path else '/v1'}"
    return Question(server, server.model, base, about, waking=waking, path=path, task=server.spec.model.task)


def _replicas(status: ModelServerStatus) -> int:
    return status.autoscaling.current_replicas if status.autoscaling is not None else 0
