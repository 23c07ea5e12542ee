"""Deployments of Serve: a server of models, and the versions that clients want loaded."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from daybreak_runtime.models.args import Args, Version
from daybreak_runtime.models.llm import LLM
from daybreak_runtime.models.loaded import Loaded
from daybreak_runtime.models.model import Model
from daybreak_runtime.models.own_port import opened
from daybreak_runtime.models.replica import Answer, Models
from daybreak_runtime.models.step import Step
from daybreak_runtime.models.versions import Versions
from daybreak_runtime.v2.problem import BadInput

logger = logging.getLogger("ray.serve")
_WATCH_SECONDS = 30.0
_AGAIN_SECONDS = 1.0
_END_SECONDS = 20.0


class DesiredVersions:
    """Versions that clients want loaded, for all replicas: a deployment with one replica."""

    def __init__(self) -> None:
        self._desired: dict[str, set[str]] = {}
        self._revision = 0
        self._changed = asyncio.Condition()

    async def want(self, model: str, versions: set[str]) -> None:
        """Make every replica load these versions, and no others."""
        async with self._changed:
            self._desired[model] = versions
            self._revision += 1
            self._changed.notify_all()

    async def look(self, observed: int) -> tuple[int, dict[str, set[str]]]:
        """Return the desired versions, as soon as they differ from `seen`, or after a while."""
        async with self._changed:
            if self._revision == observed:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), _WATCH_SECONDS)
            return self._revision, dict(self._desired)


class Server:
    """Replicas with models in memory.

    Args:
        kinds: Classes of models, by name; each replica has one of each.
        args: Arguments of the application.
        desired: Handle of `DesiredVersions`, or None if clients may not load and unload.
        uses: Handles of the deployments that the models call, by the models' names for them.
        llms: Handles of LLMs, by their names.

    Raises:
        BadInput: A version does not load, with the reason.
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        kinds: Mapping[str, type[Model]],
        args: Args,
        desired: Any = None,
        uses: Mapping[str, Any] | None = None,
        llms: Mapping[str, Any] | None = None,
    ) -> None:
        self._desired = desired
        steps = {name: Step(name, handle) for name, handle in (uses or {}).items()}
        requested = {name: LLM(name, handle) for name, handle in (llms or {}).items()}
        self._versions = {
            name: versions_of(name, kind, args, uses=steps, llms=requested) for name, kind in kinds.items()
        }
        self._models = Models(self._versions, None if desired is None else self._load)
        # A replica that starts later loads the same versions as the others.
        observed, reported = (0, {}) if desired is None else await desired.look.remote(-1)
        for name, versions in self._versions.items():
            await versions.change(reported.get(name, versions.initial_versions))
        self._watch = None if desired is None else asyncio.create_task(self._follow(observed))
        self._port = await opened(self._models)

    async def __call__(self, request: HttpRequest) -> Response:
        """Answer one HTTP request."""
        return await over_http(self._models, request)

    async def infer(self, model: str = "", version: str | None = None, **inputs: Any) -> dict[str, Any]:
        """Return outputs by name, for handles. Raises Problem."""
        return await self._models.infer(model or next(iter(self._versions)), version, inputs)

    def check_health(self) -> None:
        """Raise if the replica must be replaced."""
        if self._port is not None and self._port.ended:
            raise RuntimeError("the replica's own port is closed")

    async def _load(self, model: str, desired: set[str]) -> None:
        await self._versions[model].change(desired)
        await self._desired.want.remote(model, desired)

    async def __del__(self) -> None:
        """End in order, within Serve's time limit."""
        if self._watch is not None:
            self._watch.cancel()
        if self._port is not None:
            await self._port.stop(_END_SECONDS)

    async def _follow(self, observed: int) -> None:
        """Load and unload the versions that another replica received."""
        while True:
            try:
                observed, reported = await self._desired.look.remote(observed)
                for name, desired in reported.items():
                    with contextlib.suppress(BadInput):  # the index has the reason
                        await self._versions[name].change(desired)
            except Exception:
                logger.exception("Cannot read the desired versions")
                await asyncio.sleep(_AGAIN_SECONDS)


def versions_of(
    name: str,
    kind: type[Model],
    args: Args,
    reported: tuple[Version, ...] = (),
    uses: Mapping[str, Step] | None = None,
    llms: Mapping[str, LLM] | None = None,
) -> Versions:
    """Return the versions of one model, none of them loaded."""

    def made(version: Version) -> Loaded:
        model = kind()
        model.name, model.version, model.source = name, version.name, version.source
        model.settings, model.uses, model.llms = args.settings, uses or {}, llms or {}
        return Loaded(model, args.batch)

    return Versions(name, reported or args.all_versions(), made)


async def over_http(models: Models, request: HttpRequest) -> Response:
    """Answer a request of Serve."""
    answer = await models.answer(
        request.method, path_of(request), dict(request.headers), await request.body()
    )
    return response(answer)


def path_of(request: HttpRequest) -> str:
    """Return the path below the application's route prefix."""
    path, prefix = str(request.scope["path"]), str(request.scope.get("root_path") or "")
    return path.removeprefix(prefix) if prefix else path


def response(answer: Answer) -> Response:
    """Return an answer as Serve's response."""
    status, headers, body = answer
    return Response(body, status, headers)
