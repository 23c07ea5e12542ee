"""Models of a replica, and their responses in the Open Inference Protocol V2."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

from pydantic_core import from_json as read_json
from pydantic_core import to_json as write_json

from daybreak_runtime.models.versions import Versions
from daybreak_runtime.v2 import wire
from daybreak_runtime.v2.hints import Field
from daybreak_runtime.v2.paths import Path, find
from daybreak_runtime.v2.problem import BadInput, NotFound, Problem
from daybreak_runtime.v2.request import Request
from daybreak_runtime.v2.tensor import Array

logger = logging.getLogger("ray.serve")
Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""
Load = Callable[[str, set[str]], Awaitable[None]]
"""Function that makes every replica load these versions of a model, and no others."""
EXTENSIONS = ["binary_tensor_data"]


class Models:
    """Models of a replica, which answer requests.

    Args:
        models: Versions by model name.
        load: Function that loads and unloads in every replica, or None if clients may not.
    """

    def __init__(self, models: Mapping[str, Versions], load: Load | None = None) -> None:
        self._models = models
        self._load = load

    async def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer one request. Header names are in lower case."""
        try:
            requested = find(method, path)
            if requested.what in ("infer", "explain"):
                return await self._tensors(requested, headers, body)
            return 200, {"content-type": wire.JSON}, write_json(await self._message(requested, body))
        except Problem as problem:
            return refused(problem)
        except Exception as error:
            logger.exception("%s %s failed", method, path)
            return refused(Problem(f"{type(error).__name__}: {error}"[:500], 500))

    async def infer(self, name: str, version: str | None, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return outputs by name for Serve's handles, with the types of the model's hooks. Raises Problem."""
        versions = self._get(name)
        loaded = versions.get(version)
        values = wire.values(loaded.inference.inputs, _arrays(loaded.inference.inputs, inputs))
        given = await versions.using(loaded, loaded.infer(values, Request()))
        return {each.name: each.value(given[each.name]) for each in loaded.inference.outputs}

    async def _tensors(self, path: Path, headers: Mapping[str, str], body: bytes) -> Answer:
        versions = self._get(path.model)
        loaded = versions.get(path.version)
        if path.what == "explain" and loaded.explanation is None:
            raise NotFound(f"the model {path.model} explains nothing")
        if headers.get("content-encoding", "identity") != "identity":
            raise Problem("compressed requests are not taken", 415)
        requested = wire.read(body, headers.get(wire.HEADER_LENGTH))
        request = Request(requested.id, requested.parameters, headers)
        if path.what == "explain" and loaded.explanation is not None:
            values = wire.values(loaded.explanation.inputs, requested.tensors)
            outputs = await versions.using(loaded, loaded.explain(values, request))
        else:
            values = wire.values(loaded.inference.inputs, requested.tensors)
            outputs = await versions.using(loaded, loaded.infer(values, request))
        head = {"model_name": path.model, "model_version": loaded.model.version}
        message, more = wire.answer(head, outputs, requested)
        return 200, more, message

    async def _message(self, path: Path, body: bytes) -> Any:
        match path.what:
            case "live":
                return {"live": True}
            case "server":
                extensions = [*EXTENSIONS, *(["model_repository"] if self._load else [])]
                return {"name": "daybreak", "version": _version(), "extensions": extensions}
            case "server_ready":
                # A replica accepts requests when its models are loaded; models that clients unload do not
                # matter.
                return {"ready": True}
            case "list":
                return {"models": list(self._models)}
            case "index":
                return [message for each in self._models.values() for message in each.index()]
            case "ready":
                loaded = self._get(path.model).get(path.version)
                return {"name": path.model, "ready": True, "version": loaded.model.version}
            case "metadata":
                return self._metadata(path)
            case _:
                return await self._change(path, body)

    def _metadata(self, path: Path) -> dict[str, Any]:
        versions = self._get(path.model)
        loaded = versions.get(path.version)
        return {
            "name": path.model,
            "versions": versions.ready,
            "platform": loaded.model.platform,
            "inputs": [_metadata(each) for each in loaded.inference.inputs],
            "outputs": [_metadata(each) for each in loaded.inference.outputs],
        }

    async def _change(self, path: Path, body: bytes) -> dict[str, Any]:
        versions = self._get(path.model)
        if self._load is None:
            raise Problem(
                "models are not loaded and unloaded by clients here: args.modelControl is not set", 403
            )
        requested = _policy(body) if path.what == "load" else set()
        await self._load(path.model, set(versions.reported) if requested is None else requested)
        return {}

    def _get(self, name: str) -> Versions:
        found = self._models.get(name)
        if found is None:
            raise NotFound(f"there is no model {name[:100]}; there are: {', '.join(self._models)}")
        return found


def _version() -> str:
    try:
        return metadata.version("daybreak-runtime")
    except metadata.PackageNotFoundError:
        return "of a source tree"


def refused(problem: Problem) -> Answer:
    """Return a problem in the protocol's format."""
    return problem.status, {"content-type": wire.JSON}, write_json({"error": problem.message})


def _arrays(fields: Sequence[Field], inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Return the values of a handle's call as tensors. Raises BadInput."""
    known = {each.name: each for each in fields}
    found = {}
    for name, value in inputs.items():
        if name not in known:
            raise BadInput(f"there is no input {name}; the model takes {', '.join(known)}")
        try:
            found[name] = known[name].array(value)
        except (TypeError, ValueError) as error:
            raise BadInput(f"input {name} is {known[name].tensor}: {error}") from error
    return found


def _metadata(field: Field) -> dict[str, Any]:
    return {"name": field.name, "datatype": field.tensor.datatype, "shape": list(field.tensor.shape)}


def _policy(body: bytes) -> set[str] | None:
    """Return the versions of a load request in Triton's format, or None for all.

    The field is `config.version_policy.specific`.
    """
    if not body.strip():
        return None
    try:
        report = read_json(body)
        config = report.get("parameters", {}).get("config")
        if config is None:
            return None
        specific = (read_json(config) if isinstance(config, str) else config)["version_policy"]["specific"][
            "versions"
        ]
        return {str(each) for each in specific}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput('config has to be {"version_policy": {"specific": {"versions": [...]}}}') from error
