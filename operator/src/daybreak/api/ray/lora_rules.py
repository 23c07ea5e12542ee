"""Validation of well-formed LoRA settings: rules across models, and against vLLM's arguments."""

from collections.abc import Iterator

from daybreak import versions
from daybreak.api.common import volume_names
from daybreak.api.ray.model import AcceleratorKind, Model
from daybreak.api.ray.workload import RayWorkload

MAX_NAMES = 128
"""Maximum number of models and adapters of a service, because gateways list all of them."""
_ONLY_WITH_LORA = (
    "default_mm_loras",
    "enable_mixed_moe_lora_format",
    "enable_moe_shared_loras",
    "enable_tower_connector_lora",
    "fully_sharded_loras",
    "lora_dtype",
    "lora_target_modules",
    "max_cpu_loras",
    "specialize_active_lora",
)
"""Engine arguments that have no effect in an engine without adapters."""


def problems(workload: RayWorkload) -> Iterator[str]:
    """Yield each adapter problem that prevents a build of the spec, as one sentence."""
    yield from _names(workload)
    for number, model in enumerate(workload.models):
        path = f"spec.models[{number}]"
        yield from _arguments(model, path)
        yield from _places(model, path)
        if model.lora is None:
            continue
        if not workload.runtime.direct_ingress:
            yield (
                f"{path}.lora: adapters are served by the replicas' own port; "
                "leave spec.runtime.directIngress at true"
            )
        for mount in workload.runtime.volume_mounts:
            if f"{mount.mount_path}/".startswith(f"{volume_names.ADAPTERS_DIRECTORY}/"):
                yield f"spec.runtime.volumeMounts: {mount.mount_path} is where adapters appear; use another"


def _names(workload: RayWorkload) -> Iterator[str]:
    """Yield name problems: one request field selects models and adapters, so names must differ."""
    taken = {model.name: f"spec.models[{number}]" for number, model in enumerate(workload.models)}
    total = len(workload.models)
    for number, model in enumerate(workload.models):
        for index, adapter in enumerate(model.lora.adapters if model.lora is not None else ()):
            path = f"spec.models[{number}].lora.adapters[{index}]"
            if adapter.name in taken:
                yield f"{path}.name: {adapter.name} is the name of {taken[adapter.name]} already; rename one"
            taken.setdefault(adapter.name, path)
            total += 1
    if total > MAX_NAMES:
        yield f"spec.models: {total} models and adapters are more than {MAX_NAMES}; use two services"


def _places(model: Model, path: str) -> Iterator[str]:
    """Yield a problem if adapters can occupy every slot of an engine on the CPU.

    vLLM's operators for the CPU treat the index for no adapter (-1) as the last slot. The engine would
    then answer requests for the base model with the weights of the adapter in that slot.
    """
    lora = model.lora
    if lora is None or model.accelerator.kind is not AcceleratorKind.CPU:
        return
    if len(lora.adapters) >= lora.max_loaded:
        yield (
            f"{path}.lora.maxLoaded: on the CPU, vLLM {versions.VLLM} answers requests for the base model "
            f"with an adapter's weights if {lora.max_loaded} adapters are loaded; write at least "
            f"{len(lora.adapters) + 1}"
        )


def _arguments(model: Model, path: str) -> Iterator[str]:
    args = model.engine.args
    if model.lora is None:
        for name in _ONLY_WITH_LORA:
            # Default values that are written out have no effect.
            if args.get(name) and args[name] != "auto":
                yield f"{path}.engine.args.{name}: without effect, since the model has no lora"
        return
    memory = args.get("max_cpu_loras")
    if isinstance(memory, int | float) and memory < model.lora.max_loaded:
        yield (
            f"{path}.engine.args.max_cpu_loras: {memory} is less than lora.maxLoaded, which is "
            f"{model.lora.max_loaded}; write as many at least"
        )
