"""Loaded version: its hooks run in order, on the event loop or in its threads, alone or in a batch."""

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from daybreak_runtime.models.args import Batch
from daybreak_runtime.models.batching import Batcher
from daybreak_runtime.models.model import Model
from daybreak_runtime.v2.hints import Signature, outputs_of
from daybreak_runtime.v2.problem import NotFound, Problem
from daybreak_runtime.v2.request import Request
from daybreak_runtime.v2.tensor import Array

logger = logging.getLogger("ray.serve")


class Loaded:
    """One version in memory.

    Args:
        model: Model that is not loaded yet.
        batch: Batching of requests, or None.
    """

    def __init__(self, model: Model, batch: Batch | None) -> None:
        self.model = model
        self._threads = ThreadPoolExecutor(model.threads, thread_name_prefix=f"{model.name}-{model.version}")
        self._batch = batch
        self._batcher: Batcher | None = None
        self._alone = False
        self.inference: Signature
        self.explanation: Signature | None

    async def load(self) -> None:
        """Load the model. Raises the exception of `load`, or TypeError for hooks without hints."""
        try:
            await self._call(self.model.load)
            self.inference = self.model.inference()
            self.explanation = self.model.explanation()
            if self._batch is not None:
                self._batcher = Batcher(functools.partial(self._call, self.model.predict), self._batch)
        except BaseException:
            self._threads.shutdown(wait=False)
            raise
        hooks = (self.model.preprocess, self.model.predict, self.model.postprocess)
        self._alone = self._batcher is None and not any(inspect.iscoroutinefunction(hook) for hook in hooks)

    async def unload(self) -> None:
        """Unload the model after its current work."""
        await self._call(self.model.unload)
        self._threads.shutdown(wait=False)

    async def infer(self, values: Mapping[str, Any], request: Request) -> dict[str, Array]:
        """Return the outputs for a request's values. Raises Problem."""
        try:
            given = await self._whole(values, request)
            return outputs_of(self.inference.outputs, self.inference.named, given)
        except Exception as error:
            raise self._problem("predict", error) from error

    async def explain(self, values: Mapping[str, Any], request: Request) -> dict[str, Array]:
        """Return the outputs of `explain`. Raises Problem."""
        if self.explanation is None:
            raise NotFound(f"the model {self.model.name} explains nothing")
        try:
            reported = {self.explanation.request: request} if self.explanation.request else {}
            given = await self._call(self.model.explain, **values, **reported)
            return outputs_of(self.explanation.outputs, self.explanation.named, given)
        except Exception as error:
            raise self._problem("explain", error) from error

    async def _whole(self, values: Mapping[str, Any], request: Request) -> Any:
        reported = {self.inference.request: request} if self.inference.request else {}
        if self._alone:
            # One switch of threads for all three.
            return await self._call(self._in_a_row, values, reported)
        arguments = {**values, **reported}
        if self.model.preprocess is not None:
            arguments = self._arguments(await self._call(self.model.preprocess, **arguments))
        if self._batcher is not None:
            given = await self._batcher.predict(arguments)
        else:
            given = await self._call(self.model.predict, **arguments)
        return given if self.model.postprocess is None else await self._call(self.model.postprocess, given)

    def _in_a_row(self, values: Mapping[str, Any], reported: Mapping[str, Any]) -> Any:
        arguments: Mapping[str, Any] = {**values, **reported}
        if self.model.preprocess is not None:
            arguments = self._arguments(self.model.preprocess(**arguments))
        given = self.model.predict(**arguments)
        return given if self.model.postprocess is None else self.model.postprocess(given)

    def _arguments(self, made: Any) -> dict[str, Any]:
        """Return the result of preprocess, by the names of predict's parameters."""
        if isinstance(made, dict):
            return made
        return {next(iter(inspect.signature(self.model.predict).parameters)): made}

    async def _call(self, hook: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if inspect.iscoroutinefunction(hook):
            return await hook(*args, **kwargs)
        context = contextvars.copy_context()
        run = functools.partial(context.run, hook, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _problem(self, hook: str, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        logger.exception("%s of %s failed", hook, self.model.name, exc_info=error)
        message = f"{type(error).__name__}: {error}"[:1000]
        return Problem(f"{hook} of {self.model.name} failed: {message}", 500)
