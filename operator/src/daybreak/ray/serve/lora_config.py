"""LoRA adapters: arguments of the engine at its start, and configuration of running replicas.

The list of adapters is in the deployment's `user_config`, which Serve passes to running replicas. Only the
capacity for adapters (engine arguments) and inputs of pods (volumes, tokens) need new replicas or pods.
"""

from typing import Any

from daybreak.api.common import volume_names
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.ray.model import Model
from daybreak.ray.inputs.job_inputs import secret_variable
from daybreak.ray.inputs.place import Place
from daybreak.ray.serve.adapter_origin import identity, origin, token, volume

_IN_MEMORY = 16
"""Minimum of vLLM's `max_cpu_loras`, the number of adapters in a worker's memory, unless `engine.args` sets
another. These are in addition to the adapters on the accelerator."""


def engine_args(model: Model) -> dict[str, Any]:
    """Return the arguments for vLLM; `max_cpu_loras` of `engine.args` takes precedence."""
    if model.lora is None:
        return {}
    return {
        "enable_lora": True,
        "max_loras": model.lora.max_loaded,
        "max_cpu_loras": model.engine.args.get("max_cpu_loras") or max(_IN_MEMORY, model.lora.max_loaded),
        "max_lora_rank": model.lora.max_rank,
    }


def user_config(model: Model) -> dict[str, Any]:
    """Return the options of the model's deployment for `user_config`; empty for a model without LoRA."""
    if model.lora is None:
        return {}
    adapters = [
        {"name": adapter.name, "id": identity(adapter), **origin(adapter)} for adapter in model.lora.adapters
    ]
    return {"user_config": {"lora": {"adapters": adapters}}}


def places(model: Model, pull_policy: str) -> list[Place]:
    """Return the volumes with adapters, each PVC and image once."""
    found: dict[str, Place] = {}
    for adapter in model.lora.adapters if model.lora is not None else ():
        source = ModelSource.parse(adapter.source)
        match source.scheme:
            case Scheme.CLAIM:
                kind = {"persistentVolumeClaim": {"claimName": source.reference, "readOnly": True}}
            case Scheme.IMAGE:
                kind = {"image": {"reference": source.reference, "pullPolicy": pull_policy}}
            case _:
                continue
        name, path = (
            volume_names.adapter_volume(volume(source)),
            volume_names.adapter_directory(volume(source)),
        )
        found[name] = Place({"name": name, **kind}, {"name": name, "mountPath": path, "readOnly": True})
    return list(found.values())


def environment(model: Model) -> list[dict[str, Any]]:
    """Return the variables with the adapters' tokens. A token stays a reference, which the kubelet reads."""
    found: dict[str, dict[str, Any]] = {}
    for adapter in model.lora.adapters if model.lora is not None else ():
        name = token(adapter)
        if name is not None and adapter.token is not None:
            found[name] = secret_variable(name, adapter.token)
    return list(found.values())
