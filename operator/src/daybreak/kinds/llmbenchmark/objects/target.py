"""What is measured: a model of the benchmark's own, a copy of a service's, or the service itself."""

from dataclasses import dataclass

from daybreak.api.common import names
from daybreak.api.common.canonical import digest
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmbenchmark.spec import Where
from daybreak.api.llmbenchmark.validation import model_problems
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.ray.model import Model
from daybreak.api.ray.runtime import Runtime


@dataclass(frozen=True)
class Target:
    """What is measured."""

    runtime: Runtime
    model: Model | None
    """Whose engine is started; None: that of a service which runs."""
    service: str = ""
    """Name of the service that is asked itself."""
    service_model: str = ""


def measured(target: Target) -> str:
    """Digest of the engine that is measured: weights, arguments, accelerators; empty without one."""
    if target.model is None:
        return ""
    fields = {"source", "revision", "engine", "parallelism", "accelerator"}
    return digest(target.model.model_dump(mode="json", by_alias=True, include=fields))


class TargetMissing(Exception):
    """The service, or its model, is not there or cannot be measured; the message says why."""


def target(benchmark: LLMBenchmark, service: LLMService | None) -> Target:
    """What a benchmark measures, with the service of its reference as it is now. Raises TargetMissing."""
    spec = benchmark.spec
    if spec.model is not None:
        return Target(spec.runtime, spec.model)
    reference = spec.service_ref
    if reference is None or service is None:
        name = reference.name if reference is not None else ""
        raise TargetMissing(f"there is no LLMService {name} in this namespace, or its spec is invalid")
    models = {each.name: each for each in service.spec.models}
    wanted = reference.model or service.spec.models[0].name
    if reference.where is Where.SERVICE:
        return Target(spec.runtime, None, service.name, wanted)
    if wanted not in models:
        raise TargetMissing(
            f"LLMService {service.name} has no model {wanted}, but {', '.join(sorted(models))}"
        )
    found = _cached(service.name, models[wanted])
    for problem in model_problems(found, f"LLMService {service.name}, model {wanted}"):
        raise TargetMissing(problem)
    return Target(service.spec.runtime, found)


def _cached(service: str, model: Model) -> Model:
    """A model whose weights the service keeps in a claim, with them read from there."""
    if model.cache is None:
        return model
    directory = names.cached_weights(model.source, model.revision)
    source = f"pvc://{model.cache.claim(service, model.name)}/{directory}"
    own = {"source": source, "cache": None, "revision": None, "token": None}
    return model.model_copy(update=own)
