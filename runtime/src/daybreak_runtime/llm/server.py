"""Deployment class of Ray Serve LLM, with a direct port that serves vLLM's own app in each replica."""

# ruff: noqa: E402 - see below

import os
from collections.abc import Mapping
from typing import Any

from daybreak_runtime.ahead import processes

# First of all: the imports below take as long as those of vLLM's processes, which run in parallel.
processes.prepare()

from ray.llm._internal.serve.constants import RAYLLM_VLLM_ENGINE_CLS_ENV
from ray.serve.llm.deployment import LLMServer as RayLLMServer

from daybreak_runtime.llm.engine import Engine
from daybreak_runtime.llm.replica import OwnPaths, Replica
from daybreak_runtime.llm.warmup import warm_up
from daybreak_runtime.llm.weights import look_here
from daybreak_runtime.lora.http import PATH as LORA
from daybreak_runtime.lora.replica import ReplicaLora
from daybreak_runtime.start.cause import raise_cause


class LLMServer(RayLLMServer):  # type: ignore[misc]  # Ray is only in the Ray images
    """Replica that accepts requests from Serve's handles, and on a direct port without Serve.

    Serve finds deployments by the name of this class, so it equals that of Ray's own.
    """

    _replica: Replica | None = None
    _lora: ReplicaLora | None = None

    async def start(self) -> None:
        """Start the engine, warm it up, then listen."""
        await look_here(self._llm_config)
        with raise_cause():
            await super().start()
        engine = Engine(self.engine)
        app = await engine.app()
        if engine.takes_adapters:
            self._lora = ReplicaLora(app.state.openai_serving_models)
        await warm_up(engine)
        replica = Replica(engine, app, self.own_paths(), self._has_adapters)
        await replica.start()
        self._replica = replica

    def _get_default_engine_class(self) -> Any:
        """Return Daybreak's engine class, unless the environment names another."""
        if os.environ.get(RAYLLM_VLLM_ENGINE_CLS_ENV):
            return super()._get_default_engine_class()
        # The head imports this module too, and needs no engine.
        from daybreak_runtime.llm.vllm_engine import VLLMEngine

        return VLLMEngine

    async def _start_engine(self) -> None:
        """Start the engine.

        Ray's own method also reports the model to an actor, which it starts on the head for that.
        """
        await self.engine.start()

    def own_paths(self) -> OwnPaths:
        """Return the paths that the replica answers itself on its port, instead of the engine's app."""
        return {} if self._lora is None else {LORA: self._lora.answer}

    def _has_adapters(self) -> bool:
        """Return True if requests for adapters find them: Serve sends their names after the port is open."""
        return self._lora is None or self._lora.started

    async def reconfigure(self, user_config: Mapping[str, Any] | None) -> None:
        """Apply Serve's `user_config`, at the start and whenever it changes, while requests continue.

        Args:
            user_config: `{"lora": {...}}`, the adapters; see `daybreak_runtime.lora`.
        """
        if self._lora is not None:
            await self._lora.reconfigure(user_config)

    async def check_health(self) -> None:
        """Raise if the replica must be replaced."""
        if self._replica is not None:
            self._replica.check()
        await super().check_health()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the metric of Serve's autoscaling: all requests of this replica, from any source."""
        return {} if self._replica is None else {"running_requests": float(self._replica.requests)}

    async def __del__(self) -> None:
        """End in order, within Serve's time limit."""
        if self._replica is not None:
            await self._replica.stop()
        if self._lora is not None:
            await self._lora.close()
        await super().__del__()
