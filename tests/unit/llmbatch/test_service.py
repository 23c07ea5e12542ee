"""A batch with a missing service or model: the status reports it at once, and the batch continues later."""

from typing import Any

import pytest

from daybreak.api.llmbatch.status import BatchPhase
from daybreak.jobs.observed import Referred
from daybreak.kinds.llmbatch.decide.decision import decide
from daybreak.kinds.llmbatch.objects.ray_job import job_digest
from daybreak.kinds.llmbatch.observe.observed import Observed, Progress
from daybreak.kinds.llmbatch.status.report import events, report
from tests.unit.llmbatch.batches import batch, manifest, observe

THROUGH: dict[str, Any] = {"model": None, "serviceRef": {"name": "chat"}}
RUNNING = Progress("Running", final=False, total=100, done=40)


def service(*models: str, adapters: tuple[str, ...] = (), **status: Any) -> dict[str, Any]:
    """Return an LLMService with these models."""
    lora = {"adapters": [{"name": name} for name in adapters]}
    return {"spec": {"models": [{"name": name, "lora": lora} for name in models]}, "status": status}


def referred(found: dict[str, Any] | None, *others: str) -> Referred:
    """Return the object that `serviceRef` names, or its absence."""
    return Referred("LLMService", "chat", found, others)


def read_report(at: Observed) -> tuple[str, str]:
    """Return the reason and message of `Stalled`, or of `Reconciling` if the batch does not stall."""
    found = {each.type: each for each in report(at, decide(at)).conditions}
    reply = found["Stalled"] if found["Stalled"].status == "True" else found["Reconciling"]
    return reply.reason, reply.message


def through(found: Referred, **more: Any) -> Observed:
    """Return the observation of a batch that uses a service."""
    return observe(
        manifest(**(THROUGH | more.pop("spec", {})), status=more.pop("status", None)), service=found, **more
    )


@pytest.mark.parametrize(
    ("found", "spec", "words"),
    [
        (referred(None), {}, "there is no LLMService chat in this namespace; available: none"),
        (
            referred(None, "chart", "other"),
            {},
            "chat in this namespace; did you mean chart? available: chart, other",
        ),
        (referred(service("a", "b")), {}, "LLMService chat has no model chat (serviceRef.model is unset"),
        (referred(service("a", "b")), {}, "the same name); available: a, b"),
        (
            referred(service("tiny")),
            {"serviceRef": {"name": "chat", "model": "tinny"}},
            "LLMService chat has no model tinny; did you mean tiny? available: tiny",
        ),
        (referred(service()), {}, "available: none"),
        (referred({"spec": {"models": ["odd", 3]}, "status": {"gate": []}}), {}, "available: odd"),
    ],
)
def test_missing_service_or_model_is_reported_with_existing_names(
    found: Referred, spec: dict[str, Any], words: str
) -> None:
    at = through(found, spec=spec)
    decision = decide(at)
    reason, message = read_report(at)
    assert (reason, decision.running, decision.job) == ("ServiceNotFound", False, "")
    assert words in message
    assert message.endswith("The batch continues automatically when it is available")
    assert decision.apply, "a service that comes finds the other objects"
    posted = [each.reason for each in events(report(at, decide(through(there()))), report(at, decision))]
    assert posted == ["ServiceNotFound"]


def there() -> Referred:
    """Return a service with the model that the batch requests."""
    return referred(service("chat"))


@pytest.mark.parametrize(
    ("found", "model"),
    [
        (there(), None),
        (referred(service("a", adapters=("poet",))), "poet"),
        (referred(service("a", gate={"models": [{"name": "before", "adapters": ["old"]}]})), "old"),
        (referred(service("a", gate={"models": [{"name": "before"}]})), "before"),
    ],
)
def test_batch_runs_if_service_has_requested_model(found: Referred, model: str | None) -> None:
    decision = decide(through(found, spec={"serviceRef": {"name": "chat", "model": model}} if model else {}))
    assert (decision.running, decision.verdict and decision.verdict.stalled) == (True, False)


def route(names: list[str], leading: list[str] | None = None, why: str = "") -> dict[str, Any]:
    """Return an LLMRoute with these names and the names in its status, or without a status if None."""
    accepted = {"type": "Accepted", "status": "False", "message": why}
    status = {} if leading is None else {"names": leading, "conditions": [accepted] if why else []}
    return {"spec": {"names": names}, "status": status}


def of_kind(kind: str, found: dict[str, Any] | None, model: str | None = None, *others: str) -> Observed:
    """Return the observation of a batch with a `serviceRef` of this kind."""
    reference = {"kind": kind, "name": "chat"} | ({"model": model} if model else {})
    return through(Referred(kind, "chat", found, others), spec={"serviceRef": reference})


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (
            of_kind("LLMRoute", None, None, "chart"),
            "there is no LLMRoute chat in this namespace; did you mean",
        ),
        (
            of_kind("LLMRoute", route(["a"], ["a"])),
            "LLMRoute chat has no name chat (serviceRef.model is unset",
        ),
        (of_kind("LLMRoute", route(["a"], ["a"]), "b"), "LLMRoute chat has no name b; available: a"),
        (
            of_kind("LLMRoute", route(["chat", "a"], ["a"], "the name chat is that of the model chat")),
            "does not lead to the backends of LLMRoute chat: the name chat is that of the model chat",
        ),
        (of_kind("LLMRoute", route(["chat"])), "LLMRoute chat: it has just come"),
        (of_kind("LLMRoute", {"spec": {"names": 3}, "status": {"names": "chat"}}), "available: none"),
        (of_kind("ModelServer", {"spec": {"model": {"name": "m"}}}), "ModelServer chat has no model chat"),
        (
            of_kind("ModelServer", {"spec": {"protocol": "V2", "model": {"name": "chat"}}}),
            "ModelServer chat has protocol V2, and a batch asks for models of OpenAI's API",
        ),
    ],
)
def test_unusable_route_or_model_server_is_reported(at: Observed, words: str) -> None:
    assert not decide(at).running
    reason, message = read_report(at)
    assert reason == "ServiceNotFound"
    assert words in message


@pytest.mark.parametrize(
    "at",
    [
        of_kind("LLMRoute", route(["chat", "a"], ["chat", "a"])),
        of_kind("LLMRoute", route(["chat", "a"], ["a"]), "a"),
        of_kind("ModelServer", {"spec": {"model": {"name": "chat"}}}),
        of_kind("ModelServer", {"spec": {"model": {"name": "m"}}}, "m"),
    ],
)
def test_batch_runs_if_route_or_model_server_has_model(at: Observed) -> None:
    assert decide(at).running


def test_long_list_of_names_is_shortened() -> None:
    _, message = read_report(through(referred(None, *(f"s{n}" for n in range(30)))))
    assert "s0, s1" in message
    assert "and 22 more" in message


def test_service_reference_may_be_corrected_before_batch_starts() -> None:
    at = through(referred(None))
    status = report(at, decide(at)).model_dump(mode="json", by_alias=True, exclude_none=True)
    mended = decide(through(there(), status=status, spec={"serviceRef": {"name": "other", "model": "chat"}}))
    assert mended.running
    assert mended.verdict is not None
    assert not mended.verdict.stalled


def running(**spec: Any) -> dict[str, Any]:
    """Return the observed fields of a batch that has begun."""
    digest = job_digest(batch(**(THROUGH | spec)))
    return {
        "spec": spec,
        "status": {"jobHash": digest, "phase": "Running"},
        "job": {"metadata": {}},
        "progress": RUNNING,
    }


def test_missing_service_stops_job_and_keeps_progress() -> None:
    at = through(referred(None), **running())
    decision = decide(at)
    status = report(at, decision)
    assert (decision.running, decision.apply, status.phase) == (False, True, BatchPhase.PENDING)
    assert status.progress == "40/100"
    again = decide(through(there(), **running() | {"job": None}))
    assert (again.running, again.apply) == (True, True)


def test_job_continues_without_service_if_resume_is_off() -> None:
    at = through(referred(None), **running(resume=False))
    decision = decide(at)
    assert (decision.running, report(at, decision).phase) == (True, BatchPhase.RUNNING)
    assert read_report(at)[0] == "ServiceNotFound"
    assert "without resume no results are kept" in read_report(at)[1]
    begun = running(resume=False) | {"status": {}}
    assert decide(through(referred(None), **begun)).running, "not even where the status knows nothing of it"


def test_finished_and_suspended_precede_missing_service() -> None:
    done = Progress("Succeeded", final=True, total=1, done=1)
    assert read_report(through(referred(None), **running() | {"progress": done}))[0] == "Finished"
    suspended = through(referred(None), spec={"suspend": True})
    assert report(suspended, decide(suspended)).phase is BatchPhase.SUSPENDED
