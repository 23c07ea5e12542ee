"""One reconcile of a ModelServer: observe → plan → decide → apply → ask → decide → status."""

from collections.abc import Callable
from dataclasses import replace

from daybreak.api.common.unstructured import at, text, whole
from daybreak.api.gates.gate_status import Phase
from daybreak.api.modelserver.definition import MODEL_SERVERS
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.controller import metrics
from daybreak.controller.again import FOREIGN_SECONDS, REFUSED_SECONDS, SOON_SECONDS, Again, past_races
from daybreak.controller.asking.answer import Answer
from daybreak.controller.asking.prober import Prober, Question
from daybreak.controller.events import transitions
from daybreak.controller.writer import Writer
from daybreak.gates import sleep_metrics
from daybreak.kinds.modelserver.decide.decision import Decision, decide, held
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.observe.observer import Observer, owner_of
from daybreak.kinds.modelserver.plan import make_plan
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_SERVERS
from daybreak.platform import Platform


class Reconciler:
    """Makes the cluster what a ModelServer says, and says what came of it.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        observer: Reads it.
        platform: Settings of the installation.
        prober: Asks models.
        applier: Writes objects.
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
        may_act: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._platform = platform
        self._prober = prober
        self._applier = applier
        self._writer = Writer(api, cache, applier, MODEL_SERVERS, may_act)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one ModelServer. Returns when to look again, in seconds; None: at a change."""
        return await past_races(self._once, key, OF_SERVERS)

    async def _once(self, key: Key) -> float | None:
        seen = self._observer.observe(key)
        if seen is None:
            self._prober.forget(key)
            self._applier.forget(owner_of(key))
            sleep_metrics.SAVINGS.see(owner_of(key), None)
            sleep_metrics.IDLE_TIMES.see(owner_of(key), None)
            return None
        again = Again()
        decision = decide(seen)
        if decision.apply and seen.server is not None and not _turned(seen, decision):
            uid = seen.server.uid
            plan = await make_plan(seen, seen.server, self._platform, self._cache, self._applier)
            if plan.foreign:
                seen = replace(seen, foreign=plan.foreign)
                again.after(FOREIGN_SECONDS)
            elif plan.leaving:
                again.after(SOON_SECONDS)
            else:
                applied = await self._writer.carry_out(key, uid, plan)
                if applied is None:
                    return None  # the server is gone
                if applied.refusal:
                    again.after(REFUSED_SECONDS)
                seen = replace(self._observer.again(key, seen), refusal=applied.refusal)
            decision = decide(seen)
        answers = self._answers(key, seen, decision)
        if answers:
            seen = replace(seen, answers=answers)
            decision = decide(seen)
        if not await self._say(key, seen, decision):
            return None
        if decision.sleep_state is not None and (decision.sleep_state.asleep is not None) != seen.asleep:
            # It is written before it is carried out: whoever goes on after a crash knows of it.
            again.at_once()
        if _replicas(decision.status) != whole(at(seen.status, "autoscaling").get("replicas")):
            # The same: how many pods there are to be.
            again.at_once()
        again.within(decision.requeue_after)
        return again.seconds

    def _answers(self, key: Key, seen: Observed, decision: Decision) -> tuple[Answer, ...]:
        if not decision.ask or seen.server is None:
            self._prober.forget(key)
            return ()
        view = View(seen, seen.server)
        address = min(text(at(pod.manifest, "status").get("podIP")) for pod in view.ready_now)
        if not address:
            return ()
        host = f"[{address}]" if ":" in address else address
        base = f"http://{host}:{seen.server.profile.port}/v1"
        about = (seen.server.uid, view.current)
        return self._prober.answers(
            key, [Question(seen.server, seen.server.model, base, about, waking=held(decision))]
        )

    async def _say(self, key: Key, seen: Observed, decision: Decision) -> bool:
        """Write the status if it has changed, post what has turned. False: the server is gone."""
        owner = owner_of(key)
        sleep_metrics.SAVINGS.see(owner, decision.status.savings)
        sleep_metrics.IDLE_TIMES.see(owner, decision.status.gate)
        said = await self._writer.say(key, seen.manifest, decision.status, transitions, seen.now)
        if not said.new:
            return not said.gone
        sleep_metrics.count_wakes(owner, said.before, said.after)
        was, now = seen.sleep_state, decision.sleep_state
        begun = now is not None and now.phase is Phase.DRAINING and was is not None
        if begun and was is not None and was.phase is not Phase.DRAINING and seen.turn.gives_way_to:
            metrics.YIELDS.labels(owner.namespace, owner.name, seen.turn.gives_way_to).inc()
        return True


def _replicas(status: ModelServerStatus) -> int:
    return status.autoscaling.replicas if status.autoscaling is not None else 0


def _turned(seen: Observed, decision: Decision) -> bool:
    """Whether the decision ends a sleep that stands in the status: that is written first."""
    return seen.asleep and decision.sleep_state is not None and decision.sleep_state.asleep is None
