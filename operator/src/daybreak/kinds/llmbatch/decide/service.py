"""Check of the target of `serviceRef`: without it, the job would try each row for an hour and then fail."""

from daybreak.api.common.unstructured import Manifest, at, condition, text
from daybreak.api.gates import served_models
from daybreak.api.jobs.words import JobPhase
from daybreak.api.llmbatch.spec import ServiceKind, ServiceRef
from daybreak.api.llmbatch.status import BatchReason
from daybreak.jobs.observed import Referred
from daybreak.jobs.verdict import Verdict, choice, missing_target
from daybreak.kinds.llmbatch.observe.observed import Observed


def without_service(observed: Observed) -> Verdict | None:
    """Return the verdict on a batch without its service or model, or None if it exists or is not needed."""
    reference = observed.subject.spec.service_ref if observed.subject is not None else None
    if observed.subject is None or reference is None or observed.service is None:
        return None
    message = missing_target(observed.service) or _without_model(reference, observed.service)
    if not message:
        return None
    if stays(observed):
        message += ". The job retries each row for up to an hour, because without resume no results are kept"
        return Verdict(observed.phase_before, BatchReason.SERVICE_NOT_FOUND, message, stalled=True)
    message += ". The batch continues automatically when it is available"
    return Verdict(JobPhase.PENDING, BatchReason.SERVICE_NOT_FOUND, message, stalled=True)


def stays(observed: Observed) -> bool:
    """Return True if the job stays without its service, because it could not resume later."""
    return observed.job is not None and observed.subject is not None and not observed.subject.spec.resume


def _without_model(reference: ServiceRef, service: Referred) -> str:
    """Return the reason why the service does not serve the requested model; empty if it does."""
    manifest = service.manifest or {}
    route = reference.kind is ServiceKind.LLM_ROUTE
    if not route and (protocol := served_models.protocol(manifest)):
        return f"{service.words} has protocol {protocol}, and a batch asks for models of OpenAI's API"
    # Gateways use a route's status, not its spec.
    there = _texts(at(manifest, "status"), "names") if route else served_models.served(manifest)
    if reference.requested in there:
        return ""
    if route and reference.requested in _texts(at(manifest, "spec"), "names"):
        why = text(condition(at(manifest, "status"), "Accepted").get("message")) or "it has just come"
        return f"the name {reference.requested} does not lead to the backends of {service.words}: {why}"
    field = "" if reference.model is not None else " (serviceRef.model is unset, which means the same name)"
    noun = "name" if route else "model"
    return f"{service.words} has no {noun} {reference.requested}{field}; {choice(reference.requested, there)}"


def _texts(part: Manifest, name: str) -> list[str]:
    found = part.get(name)
    return [each for each in map(text, found) if each] if isinstance(found, list) else []
