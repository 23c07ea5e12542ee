"""State of each LoRA adapter, from the reports of the replicas.

An adapter is not part of the service's readiness: the base model answers with or without it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from daybreak.api.common import names
from daybreak.api.common.unstructured import mappings, text
from daybreak.api.llmservice.status import AdapterState, AdapterStatus, ModelState
from daybreak.api.ray.lora import Adapter
from daybreak.api.ray.model import Model
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.observe.observed import AdapterReport
from daybreak.ray.serve.adapter_origin import identity

MESSAGE_LIMIT = 1000
"""Maximum length of an adapter's message, in characters."""

_STATES = {
    "Loaded": AdapterState.READY,
    "Rejected": AdapterState.REJECTED,
    "Failed": AdapterState.FAILED,
}
"""States in the status, by the state that a replica reports. Any other reported state counts as pending."""
_WORST = (AdapterState.REJECTED, AdapterState.FAILED, AdapterState.PENDING, AdapterState.READY)


@dataclass(frozen=True)
class Adapters:
    """States of one model's adapters; `of` is None if the model accepts no adapters."""

    model: str
    of: tuple[AdapterStatus, ...] | None


def judge(snapshot: Snapshot, models: Sequence[ModelHealth]) -> dict[str, Adapters]:
    """Return the assessed adapters of each model, by the model's name."""
    views = {view.name: view for view in models}
    return {model.name: _judge(snapshot, model, views[model.name]) for model in snapshot.service.spec.models}


def askable(snapshot: Snapshot, adapters: Adapters, *, open_to_all: bool) -> list[str]:
    """Return the names of the adapters that clients may request.

    A previously listed adapter stays listed while its state is unknown. Otherwise its held clients would
    receive the error that the model does not exist.

    Args:
        snapshot: Snapshot of the service.
        adapters: Adapters of one model.
        open_to_all: True if the gate forwards requests. A new adapter is then listed only when it is loaded.
    """
    gate = snapshot.before.gates.get(adapters.model)
    named = set(gate.adapters or ()) if gate is not None else set()
    # While requests go to the first Ray cluster, the replicas' reports are about the second one.
    there = (AdapterState.READY, AdapterState.ASLEEP) if not snapshot.first else ()
    return [
        adapter.name
        for adapter in adapters.of or ()
        if adapter.state is not AdapterState.REJECTED
        and (not open_to_all or adapter.state in there or adapter.name in named)
    ]


def in_the_way(adapters: Iterable[Adapters]) -> list[str]:
    """Return the problems that keep adapters from being used, one sentence each."""
    return [
        f"adapter {adapter.name} of model {each.model} is {adapter.state.lower()}: {adapter.message}"
        for each in adapters
        for adapter in each.of or ()
        if adapter.state in (AdapterState.REJECTED, AdapterState.FAILED)
    ]


def on_the_way(adapters: Iterable[Adapters]) -> list[str]:
    """Return the names of the adapters that replicas are loading."""
    return [
        adapter.name
        for each in adapters
        for adapter in each.of or ()
        if adapter.state is AdapterState.PENDING
    ]


def _judge(snapshot: Snapshot, model: Model, view: ModelHealth) -> Adapters:
    if model.lora is None:
        return Adapters(model.name, None)
    group = names.worker_group(model.name)
    here = [pod.name for pod in snapshot.pods if pod.group == group and pod.cluster == snapshot.ray.active]
    reports = [snapshot.reports[name] for name in here if name in snapshot.reports]
    before = {
        text(item.get("name")): item
        for item in mappings(snapshot.before.models.get(model.name, {}).get("lora"))
    }
    asleep = view.state is ModelState.ASLEEP
    found = []
    for adapter in model.lora.adapters:
        report = before.get(adapter.name, {})
        same = report.get("id") == identity(adapter)
        known = _State.parse(report) if same else _State(AdapterState.PENDING)
        found.append(_status(adapter, _now(adapter, reports, known, asleep=asleep)))
    return Adapters(model.name, tuple(found))


@dataclass(frozen=True)
class _State:
    state: AdapterState
    message: str = ""

    @classmethod
    def parse(cls, report: Mapping[str, object]) -> "_State":
        written = text(report.get("state"))
        state = AdapterState(written) if written in set(AdapterState) else AdapterState.PENDING
        return cls(state, text(report.get("message")))


def _now(
    adapter: Adapter, reports: Sequence[Mapping[str, AdapterReport]], known: _State, *, asleep: bool
) -> _State:
    if asleep:
        # The rejection stays valid: no request must wake the model for it.
        return known if known.state is AdapterState.REJECTED else _State(AdapterState.ASLEEP)
    message = [report[adapter.name] for report in reports if adapter.name in report]
    current = [report for report in message if report.id == identity(adapter)]
    if not current:
        return _State(AdapterState.PENDING) if known.state is AdapterState.ASLEEP else known
    states = [_State(_STATES.get(report.state, AdapterState.PENDING), report.reason) for report in current]
    if len(current) < len(reports):
        states.append(_State(AdapterState.PENDING))
    return min(states, key=lambda each: _WORST.index(each.state))


def _status(adapter: Adapter, now: _State) -> AdapterStatus:
    return AdapterStatus(
        name=adapter.name,
        state=now.state,
        message=now.message[:MESSAGE_LIMIT] or None,
        id=identity(adapter),
    )
