"""Lookup of weights before the engine starts.

Ray Serve LLM does it in a task on each node of the replica. The task's process imports torch and vLLM, as the
replica's process has just done, and the replica waits. That is usually unnecessary, because weights are a
path or come from the Hugging Face Hub, which the engine itself queries.
"""

import asyncio
from typing import Any

import ray
from ray.llm._internal.serve.utils.node_initialization_utils import initialize_remote_node


async def look_here(llm_config: Any) -> None:
    """Do the work of Ray's task in this process, if the whole replica is on this node.

    A replica on several nodes is left to Ray's tasks, one on each.
    """
    callback = llm_config.get_or_create_callback()
    if not callback.ctx.run_init_node or _nodes(callback.ctx.placement_group) != _this_node():
        return
    llm_config.get_engine_config().hf_model_id = await asyncio.to_thread(initialize_remote_node, llm_config)
    callback.ctx.run_init_node = False


def _nodes(placement_group: Any) -> set[str]:
    table: dict[str, Any] = ray.util.placement_group_table(placement_group)
    return set(table["bundles_to_node_id"].values())


def _this_node() -> set[str]:
    return {ray.get_runtime_context().get_node_id()}
