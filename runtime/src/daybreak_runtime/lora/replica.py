"""Adapters of a replica, assembled for Ray Serve LLM's server."""

import asyncio
import importlib
import logging
from collections.abc import Mapping
from typing import Any

from daybreak_runtime.lora import files
from daybreak_runtime.lora.adapters import Adapters
from daybreak_runtime.lora.check import Shapes, check
from daybreak_runtime.lora.desired import DesiredAdapter, read
from daybreak_runtime.lora.http import answer, why_missing
from daybreak_runtime.lora.vllm_engine import VllmEngine, base_shapes

log = logging.getLogger(__name__)

START_SECONDS = 120.0
"""Maximum seconds for which a starting replica waits for its adapters, so that the request that woke it finds
them."""


class ReplicaLora:
    """Adapters of this process's replica.

    Args:
        models: vLLM's OpenAIServingModels.
    """

    def __init__(self, models: Any) -> None:
        self._engine = VllmEngine(models, lambda name: why_missing(self.adapters, name))
        self._model_config = models.model_config
        self._shapes: asyncio.Task[Shapes | None] | None = None
        self.started = False
        """True if its first adapters are available, or the wait for them has ended."""
        self.adapters = Adapters(self._engine, self._fetch, self._check)

    async def reconfigure(self, user_config: Mapping[str, Any] | None) -> None:
        """Apply the configuration from Ray Serve.

        The first one belongs to the replica's start, which waits for the adapters for a limited time: an
        unavailable adapter must not keep the base model down. During a later one Serve sends no requests to
        the replica, so that call returns immediately.
        """
        self.adapters.want(read(user_config))
        if not self.started and not await self.adapters.settled(START_SECONDS):
            log.warning("not every adapter is loaded after %.0f s: the replica starts without", START_SECONDS)
        self.started = True

    async def answer(self, send: Any) -> None:
        """Answer a request for the state of each adapter."""
        await answer(self.adapters, send)

    async def close(self) -> None:
        """Stop all work on adapters."""
        await self.adapters.close()

    async def _fetch(self, adapter: DesiredAdapter) -> str:
        elsewhere = (_fetch_on(node, adapter) for node in _other_nodes())
        path, _ = await asyncio.gather(asyncio.to_thread(files.fetch, adapter), asyncio.gather(*elsewhere))
        return path

    async def _check(self, path: str) -> None:
        if self._shapes is None:
            self._shapes = asyncio.create_task(asyncio.to_thread(base_shapes, self._model_config))
        shapes = await self._shapes
        await asyncio.to_thread(check, path, self._engine.max_rank, shapes)


def _other_nodes() -> list[str]:
    """Return the other nodes on which this replica's engine has workers (pipeline stages)."""
    ray = importlib.import_module("ray")
    group = ray.util.get_current_placement_group()
    if group is None:
        return []
    places = ray.util.placement_group_table(group).get("bundles_to_node_id", {})
    return sorted(set(places.values()) - {ray.get_runtime_context().get_node_id()})


async def _fetch_on(node: str, adapter: DesiredAdapter) -> None:
    """Fetch on another node: each worker of the engine reads the files on its own node."""
    ray = importlib.import_module("ray")
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    there = strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    options = {"num_cpus": 0, "scheduling_strategy": there, "max_retries": 0}
    try:
        await ray.remote(**options)(files.fetch).remote(adapter)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from error
