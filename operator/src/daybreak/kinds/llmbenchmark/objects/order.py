"""Order of the job: the JSON that `daybreak_runtime.benchmark` reads, with its field names."""

from typing import Any

from daybreak.api.common import names, volume_names
from daybreak.api.common.canonical import canonical
from daybreak.api.jobs.places import in_pod
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmbenchmark.load import Lengths, Load, RecordedFrom
from daybreak.api.llmbenchmark.status import STEP_LIMIT
from daybreak.api.ray.model import Model
from daybreak.kinds.llmbenchmark.objects.target import Target
from daybreak.ray import ports
from daybreak.ray.inputs.weights import weights
from daybreak.ray.quantities import as_seconds
from daybreak.ray.serve.serve_config import engine_kwargs
from daybreak.scheduling.replica_size import accelerators_per_pod

VARIABLE = "DAYBREAK_BENCHMARK"
KEY_VARIABLE = "DAYBREAK_BENCHMARK_KEY"
"""Name of the variable with the API key of a service."""


def order(benchmark: LLMBenchmark, target: Target) -> str:
    """Return the order as JSON, equal for equal specs."""
    spec = benchmark.spec
    objective, budget = spec.objective, spec.budget
    levels = len(spec.load.clients or spec.load.rates or ())
    starts = STEP_LIMIT // levels
    found: dict[str, Any] = {
        "uid": benchmark.uid,
        "load": _load(spec.load),
        "sweep": [{"name": each.argument, "values": each.values} for each in spec.sweep],
        "objective": {
            "maximize": objective.maximize.value,
            "ttft_p99_ms": _milliseconds(objective.ttft_p99),
            "tpot_p99_ms": _milliseconds(objective.tpot_p99),
            "error_rate": objective.error_rate,
        },
        "stop": spec.stop.model_dump(mode="json"),
        "budget": {
            "seconds": None if budget.time is None else as_seconds(budget.time),
            "gpu_seconds": budget.accelerator_seconds,
            "engine_starts": min(starts, budget.engine_starts or starts),
        },
        "output": in_pod(spec.output.uri) if spec.output is not None else None,
        "port": ports.BATCH,
    }
    if target.model is not None:
        found["engine"] = _engine(benchmark, target.model, target.runtime.image_pull_policy)
    else:
        key = spec.service_ref.api_key if spec.service_ref is not None else None
        found["service"] = {
            "url": names.url(target.service, benchmark.namespace),
            "model": target.service_model,
            "key": KEY_VARIABLE if key is not None else None,
        }
    return canonical(found)


def _milliseconds(duration: str | None) -> float | None:
    return None if duration is None else 1000 * as_seconds(duration)


def _load(load: Load) -> dict[str, Any]:
    prefix = load.shared_prefix
    found: dict[str, Any] = {
        "clients": load.clients or [],
        "rates": load.rates or [],
        "burstiness": load.burstiness,
        "prompt_tokens": _lengths(load.prompt_tokens),
        "output_tokens": _lengths(load.output_tokens),
        "recorded": [[each.prompt, each.output] for each in load.trace],
        "prefix_tokens": 0 if prefix is None else prefix.tokens,
        "prefixes": 1 if prefix is None else prefix.count,
        "seconds": as_seconds(load.window_duration),
        "windows": load.window_count,
        "ramp_seconds": as_seconds(load.warmup_duration),
        "seed": load.seed,
    }
    if load.trace_from is not None:
        found["recorded_from"] = _recorded_from(load.trace_from)
    return found


def _recorded_from(source: RecordedFrom) -> dict[str, Any]:
    uri, shown = in_pod(source.uri or ""), source.uri
    if source.config_map_key_ref is not None:
        name, key = source.config_map_key_ref.name, source.config_map_key_ref.key
        uri, shown = f"file://{volume_names.LENGTHS_DIRECTORY}/{key}", f"key {key} of ConfigMap {name}"
    return {
        "uri": uri,
        "shown": shown,
        "format": source.format.value,
        "prompt_column": source.prompt_column,
        "output_column": source.output_column,
    }


def _lengths(lengths: Lengths) -> dict[str, Any]:
    return {
        "kind": lengths.distribution.value,
        "mean": lengths.mean,
        "sigma": lengths.sigma,
        "min": lengths.min,
        "max": lengths.max,
    }


def _engine(benchmark: LLMBenchmark, model: Model, pull_policy: str) -> dict[str, Any]:
    source = weights(benchmark.owner, model, pull_policy)
    found: dict[str, Any] = {
        "model": model.name,
        "args": engine_kwargs(model, source),
        "gpus": accelerators_per_pod(model),
        "port": ports.DIRECT,
    }
    if isinstance(source.model_source, dict):
        found["source"] = source.model_source["bucket_uri"]
    else:
        found["source"] = source.model_source
    if source.callback is not None:
        found["bucket"] = model.source
    return found
