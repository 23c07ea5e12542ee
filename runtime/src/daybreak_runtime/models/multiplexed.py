"""Many small models on few replicas: Serve's own multiplexing keeps the most recently used ones in memory."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any

from ray import serve
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from daybreak_runtime.models.args import Args, Multiplex, Version
from daybreak_runtime.models.model import Model
from daybreak_runtime.models.replica import Answer, Models, refused
from daybreak_runtime.models.server import path_of, response, versions_of
from daybreak_runtime.v2.paths import find
from daybreak_runtime.v2.problem import NotFound, Problem

VERSION = "1"


class _Kept:
    """Model in memory. Serve calls `__del__` when another one replaces it."""

    def __init__(self, name: str, kind: type[Model], args: Args, source: str) -> None:
        self._versions = versions_of(name, kind, args, (Version(name=VERSION, source=source),))
        self.models = Models({name: self._versions})
        self._loop = asyncio.get_running_loop()
        self._gone = False

    async def load(self) -> None:
        """Load the model. Raises BadInput with the reason if that fails."""
        await self._versions.change({VERSION})

    def __del__(self) -> None:
        if not self._gone:
            self._gone = True
            with contextlib.suppress(RuntimeError):  # the replica has ended
                asyncio.run_coroutine_threadsafe(self._versions.change(set()), self._loop)


class ManyModels:
    """Replicas that load a model on its first request.

    Args:
        kind: Class of all models.
        args: Arguments of the application, with `multiplex`.
    """

    def __init__(self, kind: type[Model], args: Args) -> None:
        multiplex = _multiplex(args)
        sources = {each.name: each.source for each in multiplex.models}

        @serve.multiplexed(max_num_models_per_replica=multiplex.maxPerReplica)  # type: ignore[untyped-decorator,unused-ignore]
        async def load(name: str) -> _Kept:
            kept = _Kept(name, kind, args, sources[name])
            await kept.load()
            return kept

        self._get: Any = load

    async def answer(
        self, model: str, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Answer a request for one of the models."""
        try:
            kept: _Kept = await self._get(model)
        except Problem as problem:
            return refused(Problem(problem.message, 503))
        return await kept.models.answer(method, path, headers, body)

    async def infer(self, model: str, **inputs: Any) -> dict[str, Any]:
        """Return outputs by name, for handles. Raises Problem."""
        kept: _Kept = await self._get(model)
        return await kept.models.infer(model, None, inputs)


class Front:
    """Deployment that sends each request to a replica with its model, if there is one.

    Args:
        many: Handle of `ManyModels`.
        args: Arguments of the application, with `multiplex`.
    """

    def __init__(self, many: Any, args: Args) -> None:
        self._many = many
        self._names = [each.name for each in _multiplex(args).models]
        # Without models, for requests about no particular model.
        self._server = Models({})

    async def __call__(self, request: HttpRequest) -> Response:
        """Answer one HTTP request."""
        path, body = path_of(request), await request.body()
        try:
            requested = find(request.method, path)
            if requested.model and requested.model not in self._names:
                raise NotFound(
                    f"there is no model {requested.model[:100]}; there are: {', '.join(self._names)}"
                )
        except Problem as problem:
            return response(refused(problem))
        headers = dict(request.headers)
        if requested.model:
            handle = self._many.options(multiplexed_model_id=requested.model)
            return response(await handle.answer.remote(requested.model, request.method, path, headers, body))
        if requested.what == "list":
            return Response(_list(self._names), media_type="application/json")
        return response(await self._server.answer(request.method, path, headers, body))

    async def infer(self, model: str, **inputs: Any) -> dict[str, Any]:
        """Return outputs by name, for handles. Raises Problem."""
        found: dict[str, Any] = await self._many.options(multiplexed_model_id=model).infer.remote(
            model, **inputs
        )
        return found


def _multiplex(args: Args) -> Multiplex:
    if args.multiplex is None:
        raise ValueError("args.multiplex is not set")
    return args.multiplex


def _list(names: list[str]) -> bytes:
    return json.dumps({"models": names}).encode()
