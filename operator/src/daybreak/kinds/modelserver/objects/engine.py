"""The engine's container: image, command, arguments, probe."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.profiles import Distributed, Flags, filled, flag_name
from daybreak.ray.inputs.weights import Weights
from daybreak.ray.pods.pod_spec import CACHE_DIRECTORY
from daybreak.ray.quantities import whole_seconds
from daybreak.ray.serve.serve_config import engine_kwargs

PROBE_SECONDS = 2
"""How often the kubelet asks whether requests may come."""


def command(server: ModelServer, weights: Weights) -> dict[str, list[str]]:
    """`command` and `args` of the container that takes requests."""
    profile = server.profile
    return _started(server, weights, profile.command, [*profile.args, *_of_metrics(server)])


def worker_command(server: ModelServer, weights: Weights) -> dict[str, list[str]]:
    """The same of the others of a replica on several nodes."""
    profile, spread = server.profile, server.profile.distributed or Distributed()
    words = profile.command if spread.worker_command is None else spread.worker_command
    arguments = spread.worker_args
    if arguments is None:
        arguments = [*profile.args, *_of_metrics(server)]
    return _started(server, weights, words, arguments)


def _started(
    server: ModelServer, weights: Weights, command: Sequence[str], own: Sequence[str]
) -> dict[str, list[str]]:
    """A container with a command and arguments, and with those that all of a replica have after these."""
    profile, found, values = server.profile, {}, _values(server, weights)
    spread = (profile.distributed or Distributed()).args if server.spec.nodes > 1 else []
    if words := filled(command, values):
        found["command"] = words
    arguments = filled([*own, *spread, *_of_model(server)], values)
    match profile.flag_style:
        case Flags.VLLM:
            # What the engine is told, not what a pod of it is counted as.
            model = server.model.model_copy(update={"parallelism": server.spec.parallelism})
            arguments += flags(engine_kwargs(model, weights))
        case Flags.DASHES:
            arguments += plain_flags(server.spec.engine_args or {}, "-")
        case Flags.UNDERSCORES:
            arguments += plain_flags(server.spec.engine_args or {}, "_")
    if arguments:
        found["args"] = arguments
    return found


def environment(server: ModelServer, weights: Weights) -> dict[str, str]:
    """Environment that the engine's profile gives it."""
    env = server.profile.env
    return dict(zip(env, filled(list(env.values()), _values(server, weights)), strict=True))


def _values(server: ModelServer, weights: Weights) -> dict[str, str]:
    """What templates stand for."""
    return {
        "weights": place(weights),
        "model": server.spec.model.name,
        "revision": server.spec.model.revision or "",
        "tensor": str(server.spec.parallelism.tensor),
        "pipeline": str(server.spec.parallelism.pipeline),
        "nodes": str(server.spec.nodes),
        "port": str(server.profile.port),
        "drain": str(drain_seconds(server)),
        "cache": CACHE_DIRECTORY,
    }


def _of_model(server: ModelServer) -> list[str]:
    """Arguments that depend on where the model comes from."""
    profile, model = server.profile, server.spec.model
    hub = ModelSource.parse(model.source).scheme is Scheme.HUGGING_FACE
    return [
        *(profile.hub_args if hub else profile.path_args),
        *(profile.revision_args if model.revision is not None else ()),
        *(profile.remote_code_args if model.trust_remote_code else ()),
    ]


def _of_metrics(server: ModelServer) -> list[str]:
    """Arguments that turn its metrics on, where nobody says something else of them."""
    given = {f"--{flag_name(name)}" for name in server.spec.engine_args or {}}
    words = server.profile.metrics_args
    return [] if any(word.partition("=")[0] in given for word in words) else list(words)


def drain_seconds(server: ModelServer) -> int:
    """Seconds in which requests may end when a pod goes."""
    return whole_seconds(server.spec.graceful_shutdown_timeout)


def place(weights: Weights) -> str:
    """Where the engine finds the model: a repository, a path, or a bucket that it reads itself."""
    source = weights.model_source
    return source if isinstance(source, str) else source["bucket_uri"]


def probe(server: ModelServer) -> dict[str, Any]:
    """Whether requests may come. An engine that loads for an hour is no failure, so nothing ends it."""
    return {
        "httpGet": {"path": server.readiness_path, "port": server.profile.port},
        "periodSeconds": PROBE_SECONDS,
        "timeoutSeconds": 5,
        "failureThreshold": 3,
    }


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """Engine arguments as vLLM's command line takes them."""
    found: list[str] = []
    for name, value in arguments.items():
        flag = f"--{flag_name(name)}"
        match value:
            case None:
                continue
            case bool():
                found.append(flag if value else f"--no-{flag[2:]}")
            case list() | tuple():
                found += [flag, *map(str, value)]
            case dict():
                found += [flag, json.dumps(value, sort_keys=True)]
            case _:
                found += [flag, str(value)]
    return found


def plain_flags(arguments: Mapping[str, Any], between: str) -> list[str]:
    """Arguments as most command lines take them: a switch stands alone, and is left out where it is off.

    `between` stands between the words of a name.
    """
    found: list[str] = []
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        words = value if isinstance(value, list) else [] if value is True else [value]
        found += [f"--{flag_name(name).replace('-', between)}", *map(str, words)]
    return found
