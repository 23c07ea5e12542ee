"""Engine of Ray Serve LLM that starts fewer processes if the whole replica is on one node.

On GPUs Ray gets vLLM's configuration from another process, because a replica need not have a GPU itself. It
also makes vLLM start each device's worker as an actor. If all GPUs of this node belong to this replica, both
can be done as in `vllm serve`: here, and in the engine's own process or its children.
"""

from typing import Any

import ray
from ray.llm._internal.serve.engines.vllm import vllm_engine
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import FrontendArgs
from vllm.usage.usage_lib import UsageContext

from daybreak_runtime import structured_outputs
from daybreak_runtime.ahead import processes


class VLLMEngine(vllm_engine.VLLMEngine):  # type: ignore[misc]  # Ray is only in the Ray images
    """Engine of a replica."""

    def _prepare_engine_config(self, callback_ctx: Any) -> tuple[Any, Any, Any]:
        prepared = self._prepared(callback_ctx)
        structured_outputs.use_one_backend(prepared[2])
        return prepared

    def _prepared(self, callback_ctx: Any) -> tuple[Any, Any, Any]:
        config = self.llm_config.get_engine_config()
        if not config.accelerator.requires_remote_initialization:
            processes.use()
            prepared: tuple[Any, Any, Any] = super()._prepare_engine_config(callback_ctx)
            return prepared
        devices = config.num_devices
        if not _all_here(callback_ctx.placement_group, devices):
            processes.give_up()
            prepared = super()._prepare_engine_config(callback_ctx)
            return prepared
        processes.use()
        args, engine_config = _configure(config, "uni" if devices == 1 else "mp")
        return args, FrontendArgs(**config.frontend_kwargs), engine_config

    def _start_async_llm_engine(self, args: Any, engine_config: Any, placement_group: Any) -> Any:
        with_ray = engine_config.parallel_config.distributed_executor_backend == "ray"
        # Without Ray's workers the placement group is irrelevant to the engine.
        return super()._start_async_llm_engine(args, engine_config, placement_group if with_ray else None)


def _configure(config: Any, backend: str) -> tuple[Any, Any]:
    """Do the work of Ray's task: return the engine's arguments, and vLLM's configuration from them."""
    vllm_engine._resolve_hf_model_id_from_mirror(config)
    try:
        kwargs = vllm_engine._normalize_vllm_engine_kwargs(config.get_initialization_kwargs())
        args = AsyncEngineArgs(**{**kwargs, "distributed_executor_backend": backend})
        return args, args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    except Exception as error:  # noqa: BLE001 - whatever it is, it says why there is no engine
        # As in Ray's task: vLLM's own exceptions cannot be pickled.
        raise RuntimeError(f"Failed to create vLLM engine config: {error}") from None


def _all_here(placement_group: Any, devices: int) -> bool:
    """Return True if the replica's GPUs are all GPUs of this node and no others."""
    table: dict[str, Any] = ray.util.placement_group_table(placement_group)
    here = ray.get_runtime_context().get_node_id()
    if set(table["bundles_to_node_id"].values()) != {here}:
        return False
    booked = sum(bundle.get("GPU", 0) for bundle in table["bundles"].values())
    (node,) = (each for each in ray.nodes() if each["NodeID"] == here)
    return bool(booked == node["Resources"].get("GPU", 0) == devices)
