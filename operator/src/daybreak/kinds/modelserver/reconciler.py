"""The reconcile of a ModelServer, as far as it is not that of any workload with one gate."""

from collections.abc import Callable

from daybreak.api.common.unstructured import at, text, whole
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.controller.asking.answer import Answer
from daybreak.controller.asking.other_pods import OtherPods
from daybreak.controller.asking.prober import Prober, Question
from daybreak.controller.plan import Plan
from daybreak.kinds.modelserver.decide.decision import Decision, decide, view_of
from daybreak.kinds.modelserver.decide.rollout import unproven
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.observe.observer import Observer
from daybreak.kinds.modelserver.plan import make_plan
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_SERVERS
from daybreak.kube.watching.cache import Cache, Key
from daybreak.kube.writing.apply import Applier
from daybreak.platform import Platform
from daybreak.workloads import reconciler
from daybreak.workloads.decision import held


class Reconciler(reconciler.Reconciler[Observed, ModelServerStatus]):
    """Makes the cluster what a ModelServer says, and says what came of it.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        observer: Reads it.
        platform: Settings of the installation.
        prober: Asks models.
        applier: Writes objects.
        others: Asks what pods of others hold on nodes.
        may_act: Whether the lease is held this moment.
    """

    def __init__(
        self,
        api: Api,
        cache: Cache,
        observer: Observer,
        platform: Platform,
        prober: Prober,
        applier: Applier,
        others: OtherPods,
        may_act: Callable[[], bool],
    ) -> None:
        super().__init__(api, cache, observer, OF_SERVERS, applier, others, may_act)
        self._cache = cache
        self._platform = platform
        self._prober = prober

    def decide(self, seen: Observed) -> Decision:
        """What to do about it."""
        return decide(seen)

    async def plan(self, seen: Observed) -> Plan:
        """What its objects should be."""
        return await make_plan(view_of(seen), self._platform, self._cache, self._applier)

    def forget(self, key: Key) -> None:
        """It has gone: nobody is asked."""
        self._prober.forget(key)

    def to_carry_out(self, seen: Observed, decision: Decision) -> bool:
        """Whether there are to be other numbers of pods than the status says, pods of another revision, or
        pods that may go now."""
        other = _replicas(decision.status) != whole(at(seen.status, "autoscaling").get("replicas"))
        before = seen.history.state if seen.history is not None else None
        proven = unproven(before) and not unproven(decision.status.rollout)
        return other or proven or _revision_taken(seen, decision.status)

    def answers(self, key: Key, seen: Observed, decision: Decision) -> tuple[Answer, ...]:
        """What its model answers."""
        if not decision.ask or seen.subject is None:
            self._prober.forget(key)
            return ()
        asked = question(view_of(seen), waking=held(decision))
        return () if asked is None else self._prober.answers(key, [asked])


def question(view: View, *, waking: bool) -> Question | None:
    """What its engine is asked, in one of the pods that are ready; None: none of them has an address."""
    server = view.server
    address = min(text(at(pod.manifest, "status").get("podIP")) for pod in view.ready_now)
    if not address:
        return None
    host = f"[{address}]" if ":" in address else address
    path, about = server.answer_path, (server.uid, view.current)
    base = f"http://{host}:{server.profile.port}{'' if path else '/v1'}"
    return Question(server, server.model, base, about, waking=waking, path=path, task=server.spec.model.task)


def _revision_taken(seen: Observed, status: ModelServerStatus) -> bool:
    """Whether it has just been decided that it is built of another revision than this look was of."""
    history, now = seen.history, status.rollout
    if now is None or history is None or history.built is None or now.revision == history.built.name:
        return False
    return history.state is None or now.revision != history.state.revision


def _replicas(status: ModelServerStatus) -> int:
    return status.autoscaling.replicas if status.autoscaling is not None else 0
