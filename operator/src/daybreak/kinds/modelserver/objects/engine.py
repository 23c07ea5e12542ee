"""Container of the engine: image, command, arguments, probe."""

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
"""Interval of the kubelet's readiness probe, in seconds."""


def command(server: ModelServer, weights: Weights) -> dict[str, list[str]]:
    """Return `command` and `args` of the container that receives requests."""
    profile = server.profile
    return _started(server, weights, profile.command, [*profile.args, *_of_metrics(server)])


def worker_command(server: ModelServer, weights: Weights) -> dict[str, list[str]]:
    """Return `command` and `args` of the worker pods of a replica on several nodes."""
    profile, spread = server.profile, server.profile.distributed or Distributed()
    words = profile.command if spread.worker_command is None else spread.worker_command
    arguments = spread.worker_args
    if arguments is None:
        arguments = [*profile.args, *_of_metrics(server)]
    return _started(server, weights, words, arguments)


def _started(
    server: ModelServer, weights: Weights, command: Sequence[str], own: Sequence[str]
) -> dict[str, list[str]]:
    """Return `command` and `args`, with the arguments that all pods of a replica share at the end."""
    profile, found, values = server.profile, {}, _values(server, weights)
    spread = (profile.distributed or Distributed()).args if server.spec.nodes > 1 else []
    if words := filled(command, values):
        found["command"] = words
    arguments = filled([*own, *spread, *_of_model(server)], values)
    match profile.flag_style:
        case Flags.VLLM:
            # The engine gets the parallelism of the spec, not the one that counts its pods.
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
    """Return the environment that the engine's profile sets."""
    env = server.profile.env
    return dict(zip(env, filled(list(env.values()), _values(server, weights)), strict=True))


def _values(server: ModelServer, weights: Weights) -> dict[str, str]:
    """Return the values of the placeholders in templates."""
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
    """Return the arguments that depend on the model's source."""
    profile, model = server.profile, server.spec.model
    match ModelSource.parse(model.source).scheme:
        case Scheme.HUGGING_FACE:
            of_source = profile.hub_args
        case Scheme.OLLAMA | Scheme.MLFLOW:
            of_source = profile.registry_args
        case _:
            of_source = profile.path_args
    return [
        *of_source,
        *(profile.revision_args if model.revision is not None else ()),
        *(profile.remote_code_args if model.trust_remote_code else ()),
    ]


def _of_metrics(server: ModelServer) -> list[str]:
    """Return the arguments that enable metrics, or none if `engineArgs` sets them."""
    given = {f"--{flag_name(name)}" for name in server.spec.engine_args or {}}
    words = server.profile.metrics_args
    return [] if any(word.partition("=")[0] in given for word in words) else list(words)


def drain_seconds(server: ModelServer) -> int:
    """Return the time in seconds that requests have to end when a pod stops."""
    return whole_seconds(server.spec.graceful_shutdown_timeout)


def place(weights: Weights) -> str:
    """Return the model's location for the engine: a repository, a path, or a bucket that it reads itself."""
    source = weights.model_source
    return source if isinstance(source, str) else source["bucket_uri"]


def probe(server: ModelServer) -> dict[str, Any]:
    """Return the readiness probe. An engine may load for an hour, so no failed probe stops it."""
    return {
        "httpGet": {"path": server.readiness_path, "port": server.profile.port},
        "periodSeconds": PROBE_SECONDS,
        "timeoutSeconds": 5,
        "failureThreshold": 3,
    }


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """Return engine arguments in the form of vLLM's command line."""
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
    """Return arguments in the form of most command lines: a switch has no value, and is omitted if off.

    `between` separates the words of a name.
    """
    found: list[str] = []
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        words = value if isinstance(value, list) else [] if value is True else [value]
        found += [f"--{flag_name(name).replace('-', between)}", *map(str, words)]
    return found
