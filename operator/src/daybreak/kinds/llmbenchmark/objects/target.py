"""Measurement target: the benchmark's own model, a copy of a service's model, or the service itself."""

from dataclasses import dataclass

from daybreak.api.common import volume_names
from daybreak.api.common.canonical import digest
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmbenchmark.spec import Where
from daybreak.api.llmbenchmark.validation import model_problems
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.ray.model import Model
from daybreak.api.ray.runtime import Runtime
from daybreak.jobs.verdict import choice


@dataclass(frozen=True)
class Target:
    """Measurement target of a benchmark."""

    runtime: Runtime
    model: Model | None
    """Model whose engine the Job starts. None to measure a running service."""
    service: str = ""
    """Name of the running service to measure."""
    service_model: str = ""


def measured(target: Target) -> str:
    """Return a digest of the measured engine (weights, arguments, accelerators); empty without an engine."""
    if target.model is None:
        return ""
    fields = {"source", "revision", "engine", "parallelism", "accelerator"}
    return digest(target.model.model_dump(mode="json", by_alias=True, include=fields))


class TargetMissing(Exception):
    """Raised if the service or its model does not exist or cannot be measured.

    The message gives the reason.
    """


def target(benchmark: LLMBenchmark, service: LLMService | None, why: str = "") -> Target:
    """Return the measurement target of a benchmark.

    Args:
        benchmark: The benchmark.
        service: Current LLMService of the benchmark's reference.
        why: Reason why there is no service, if known.

    Raises:
        TargetMissing: The service or its model does not exist or cannot be measured.
    """
    spec = benchmark.spec
    if spec.model is not None:
        return Target(spec.runtime, spec.model)
    reference = spec.service_ref
    if reference is None or service is None:
        name = reference.name if reference is not None else ""
        raise TargetMissing(why or f"the spec of LLMService {name} is invalid, as its status says")
    models = {each.name: each for each in service.spec.models}
    desired = reference.model or service.spec.models[0].name
    requested = reference.mode is Where.SERVICE
    there = [*models, *(_adapters(service) if requested else ())]
    if desired not in there:
        raise TargetMissing(f"LLMService {service.name} has no model {desired}; {choice(desired, there)}")
    if requested:
        return Target(spec.runtime, None, service.name, desired)
    found = _cached(service.name, models[desired])
    for problem in model_problems(found, f"LLMService {service.name}, model {desired}"):
        raise TargetMissing(problem)
    return Target(service.spec.runtime, found)


def _adapters(service: LLMService) -> list[str]:
    """Return the names of LoRA adapters, which the service also serves as models."""
    return [
        each.name for model in service.spec.models if model.lora is not None for each in model.lora.adapters
    ]


def _cached(service: str, model: Model) -> Model:
    """Return the model with its weights read from the service's cache PVC, or unchanged without a cache."""
    if model.cache is None:
        return model
    directory = volume_names.cached_weights(model.source, model.revision)
    source = f"pvc://{model.cache.claim(service, model.name)}/{directory}"
    own = {"source": source, "cache": None, "revision": None, "token": None}
    return model.model_copy(update=own)
