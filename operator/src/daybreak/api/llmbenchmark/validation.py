"""Rules across fields of an LLMBenchmark that CEL cannot express."""

from collections.abc import Iterator

from daybreak import versions
from daybreak.api.common import engine_args
from daybreak.api.gates import schedule_rules
from daybreak.api.jobs.order import too_long
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.ray.model import Model, Placement


def problems(benchmark: LLMBenchmark) -> tuple[str, ...]:
    """Return the problems that make the spec unusable, each as one sentence; empty if there are none."""
    return (*_sweep(benchmark), *_model(benchmark), *_schedule(benchmark), *too_long(benchmark.spec))


def _sweep(benchmark: LLMBenchmark) -> Iterator[str]:
    model = benchmark.spec.model
    other = benchmark.spec.runtime.stated_ray_version not in ("", versions.RAY)
    given = {} if model is None else dict(model.engine.args)
    for name, wrong in engine_args.problems(given, other_vllm=other):
        yield f"spec.model.engine.args.{name}: {wrong}"
    for sweep in benchmark.spec.sweep:
        for value in sweep.values:
            for name, wrong in engine_args.problems({sweep.argument: value}, other_vllm=other):
                yield f"spec.sweep: {name}: {wrong}"
        if len({repr(value) for value in sweep.values}) < len(sweep.values):
            yield f"spec.sweep: {sweep.argument}: a value is there twice"


def _model(benchmark: LLMBenchmark) -> Iterator[str]:
    model = benchmark.spec.model
    if model is None:
        return
    yield from model_problems(model, "spec.model")
    if model.cache is not None:
        yield (
            "spec.model.cache: a benchmark fills no claim; name one that holds the weights in "
            "spec.model.source (pvc://claim/path)"
        )


def _schedule(benchmark: LLMBenchmark) -> Iterator[str]:
    if benchmark.spec.schedule is not None:
        yield from schedule_rules.problems_of("spec.schedule", benchmark.spec.schedule)


def model_problems(model: Model, where: str) -> Iterator[str]:
    """Yield the problems that prevent an engine of this model from starting in one pod."""
    pipeline = model.parallelism.pipeline
    if pipeline > 1 and model.placement is not Placement.STRICT_PACK:
        yield (
            f"{where}.parallelism.pipeline: the stages of a replica are {pipeline} pods, and a "
            "benchmark has one; use placement STRICT_PACK where they fit on one node"
        )
