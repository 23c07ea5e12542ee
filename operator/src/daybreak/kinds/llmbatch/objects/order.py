"""Order of the job: the JSON that `daybreak_runtime.batch` reads, with its field names."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.canonical import canonical
from daybreak.api.common.source import ModelSource
from daybreak.api.jobs.places import in_pod
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.api.llmbatch.spec import OnRowError, ServiceKind, ServiceRef
from daybreak.api.ray.model import AcceleratorKind, Model
from daybreak.ray import ports
from daybreak.ray.inputs.weights import weights
from daybreak.ray.serve import adapter_origin
from daybreak.ray.serve.replica_range import replica_range
from daybreak.ray.serve.serve_config import engine_kwargs
from daybreak.scheduling.replica_size import bundle, placement

VARIABLE = "DAYBREAK_BATCH"
KEY_VARIABLE = "DAYBREAK_BATCH_KEY"
"""Name of the variable with the API key of a service."""
ORDER_LIMIT = 120 * 1024
"""Maximum length of the order, in bytes. Linux accepts a variable of 128 KiB, including its name."""
_SLOTS = {AcceleratorKind.GPU: 1024, AcceleratorKind.CPU: 256}
"""Maximum number of requests that vLLM runs concurrently if `max_num_seqs` is unset, by accelerator kind.
Requests without a slot wait inside the engine."""


def order(batch: LLMBatch) -> str:
    """Return the order as JSON, equal for equal specs."""
    spec = batch.spec
    found: dict[str, Any] = {
        "uid": batch.uid,
        "input": _place(spec.input.uri, spec.input.format.value),
        "output": _place(spec.output.uri, spec.output.format.value),
        "request": _request(batch),
        "fail_on_error": spec.on_row_error is OnRowError.FAIL,
        "max_failed_rows": spec.max_failed_rows,
        "resume": spec.resume,
        "port": ports.BATCH,
    }
    if spec.model is not None:
        found["engines"] = _engines(batch, spec.model)
    if spec.service_ref is not None:
        found["service"] = _service(batch, spec.service_ref)
    return canonical(found)


def _place(uri: str, kind: str) -> dict[str, str]:
    return {"uri": in_pod(uri), "format": kind, "shown": uri}


def _request(batch: LLMBatch) -> dict[str, Any]:
    spec = batch.spec
    return {
        "task": spec.task.value,
        "prompt": spec.prompt,
        "messages": [each.model_dump(mode="json") for each in spec.messages or ()],
        "messages_column": spec.messages_column,
        "images": spec.images,
        "sampling_params": spec.sampling_params,
        "sampling_params_column": spec.sampling_params_column,
        "guided_json": spec.guided_json,
        "adapter": spec.adapter,
        "chat_template": spec.stages.chat_template_text,
        "chat_template_kwargs": spec.stages.chat_template_kwargs,
        "use_chat_template": spec.stages.chat_template,
        "tokenize": spec.stages.tokenize,
    }


def _engines(batch: LLMBatch, model: Model) -> dict[str, Any]:
    source = weights(batch.workload.name, model, batch.spec.runtime.image_pull_policy)
    allowed = replica_range(batch.workload, model)
    args = engine_kwargs(model, source)
    adapters = model.lora.adapters if model.lora is not None else ()
    return {
        # Ray Data copies a bucket itself; a path or a repository stays unchanged.
        "source": source.model_source if source.callback is None else model.source,
        "engine_args": args,
        "bundle": {**bundle(model), names.model_resource(model.name): 1},
        "resource": names.prepare_resource(model.name),
        "name": batch.spec.adapter or model.name,
        "strategy": placement(model).value,
        "replicas": [allowed.min, allowed.max],
        "max_num_seqs": args.get("max_num_seqs") or _SLOTS[model.accelerator.kind],
        "batch_size": batch.spec.stages.batch_size,
        "preparers": batch.spec.stages.concurrency,
        "adapters": {
            each.name: adapter_origin.origin(each)["path"]
            for each in adapters
            if ModelSource.parse(each.source).scheme in adapter_origin.IN_PODS
        },
    }


def _service(batch: LLMBatch, desired: ServiceRef) -> dict[str, Any]:
    # The namespace's address serves all names of a route, whether or not the route has its own address.
    address = names.ROUTER if desired.kind is ServiceKind.LLM_ROUTE else desired.name
    return {
        "url": names.url(address, batch.namespace),
        "model": desired.requested,
        "concurrency": desired.concurrency,
        "key": KEY_VARIABLE if desired.api_key is not None else None,
    }
