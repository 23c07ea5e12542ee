"""Whether what `serviceRef` names is there: without it each row would be tried for an hour, and then fail."""

from daybreak.api.gates import served_models
from daybreak.api.jobs.words import JobPhase
from daybreak.api.llmbatch.spec import ServiceRef
from daybreak.api.llmbatch.status import BatchReason
from daybreak.controller.jobs.observed import Referred
from daybreak.controller.jobs.verdict import Verdict, choice, leads_nowhere
from daybreak.kinds.llmbatch.observe.observed import Observed


def without_service(seen: Observed) -> Verdict | None:
    """How a batch is whose service, or model, is not there; None: it is, or the batch needs none."""
    reference = seen.subject.spec.service_ref if seen.subject is not None else None
    if seen.subject is None or reference is None or seen.service is None:
        return None
    message = leads_nowhere(seen.service) or _without_model(reference, seen.service)
    if not message:
        return None
    if stays(seen):
        message += ". The job goes on trying, for up to an hour with each row: without resume nothing is kept"
        return Verdict(seen.phase_before, BatchReason.SERVICE_MISSING, message, stalled=True)
    message += ". The batch goes on by itself when it is there"
    return Verdict(JobPhase.PENDING, BatchReason.SERVICE_MISSING, message, stalled=True)


def stays(seen: Observed) -> bool:
    """Whether a job stays though its service is not there: one that could not go on where it stopped."""
    return seen.job is not None and seen.subject is not None and not seen.subject.spec.resume


def _without_model(reference: ServiceRef, service: Referred) -> str:
    """Why no model answers to the name that is asked for; empty: one does."""
    models = served_models.served(service.manifest or {})
    if reference.asked in models:
        return ""
    field = "" if reference.model is not None else " (serviceRef.model is unset, which means the same name)"
    return f"{service.words} has no model {reference.asked}{field}; {choice(reference.asked, models)}"
