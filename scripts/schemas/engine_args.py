"""Print the engine arguments of the installed vLLM, which the operator uses to validate `engine.args`.

The script needs vllm and ray: run it with the Python of the Ray image (`python -m cluster.images
engine-args`). Commit the JSON from standard output as operator/src/daybreak/api/common/engine_args.json:

- `arguments`: every key that `engine.args` may contain, with the type in vLLM's notation (`type`), the JSON
  types of the YAML value (`json`), the fixed choices (`choices`) and the default if it is plain JSON
  (`default`).
- `owned`: vLLM arguments that Daybreak sets, with the field of LLMService to use instead.
- `refused`: vLLM arguments that have no effect or do harm under Ray Serve, with the reason.
- `accelerator_types`: Ray's names of GPUs. Daybreak does not support TPUs, HPUs and similar accelerators.

Ray Serve LLM accepts the fields of two vLLM classes as engine_kwargs: AsyncEngineArgs (the engine) and
FrontendArgs (the OpenAI layer, which the direct HTTP port of a replica and Ray's ingress share).
"""

import builtins
import dataclasses
import enum
import importlib
import importlib.metadata
import json
import re
import sys
import types
import typing
from collections.abc import Iterator

# Field of LLMService that sets the argument.
OWNED = {
    "model": "spec.models[].source",
    "served_model_name": "spec.models[].name",
    "revision": "spec.models[].revision",
    "tensor_parallel_size": "spec.models[].parallelism.tensor",
    "pipeline_parallel_size": "spec.models[].parallelism.pipeline",
    "trust_remote_code": "spec.models[].trustRemoteCode",
    "enable_lora": "spec.models[].lora",
    "max_loras": "spec.models[].lora.maxLoaded",
    "max_lora_rank": "spec.models[].lora.maxRank",
    "lora_modules": "spec.models[].lora.adapters",
}

_RAY_PLACES = "Ray places the processes; use spec.models[].parallelism and spec.models[].placement"
_OWN_PORT = "Daybreak opens the HTTP port of the replica and configures its listener"
_LISTED_PATHS = "replicas serve a fixed list of paths, without the path of this argument"
_IN_FRONT = "middleware would run before the request count and the path list of the replica"
_BROWSERS = "browsers do not connect to replicas; configure CORS before the gateway"
_NO_SECRETS = "a manifest must not contain credentials; reference a Secret instead"
_NOT_WITH_RAY = "Ray Serve LLM ignores the argument"

REFUSED = {
    # AsyncEngineArgs
    "model_weights": "vLLM sets the argument if weights and model configuration have different locations",
    "hf_token": _NO_SECRETS,
    "distributed_executor_backend": "the placement of a replica's processes determines the value",
    "data_parallel_size": "each replica has one engine; use spec.models[].replicas for more engines",
    "data_parallel_rank": _RAY_PLACES,
    "data_parallel_start_rank": _RAY_PLACES,
    "data_parallel_size_local": _RAY_PLACES,
    "data_parallel_address": _RAY_PLACES,
    "data_parallel_rpc_port": _RAY_PLACES,
    "data_parallel_hybrid_lb": _RAY_PLACES,
    "data_parallel_external_lb": _RAY_PLACES,
    "data_parallel_multi_port_external_lb": _RAY_PLACES,
    "data_parallel_backend": _RAY_PLACES,
    "nnodes": _RAY_PLACES,
    "node_rank": _RAY_PLACES,
    "master_addr": _RAY_PLACES,
    "master_port": _RAY_PLACES,
    "device_ids": _RAY_PLACES,
    "tokens_only": "the argument disables the text endpoints",
    "fail_on_environ_validation": _NOT_WITH_RAY,
    # FrontendArgs
    "tool_parser_plugin": "only the launcher of vLLM loads the plugin",
    "log_config_file": _NOT_WITH_RAY,
    "enable_server_load_tracking": _LISTED_PATHS,
    "enable_tokenizer_info_endpoint": _LISTED_PATHS,
    "enable_offline_docs": _LISTED_PATHS,
    "host": _OWN_PORT,
    "port": _OWN_PORT,
    "uds": _OWN_PORT,
    "uvicorn_log_level": _OWN_PORT,
    "disable_uvicorn_access_log": _OWN_PORT,
    "disable_access_log_for_endpoints": _OWN_PORT,
    "allow_credentials": _BROWSERS,
    "allowed_origins": _BROWSERS,
    "allowed_methods": _BROWSERS,
    "allowed_headers": _BROWSERS,
    "api_key": _NO_SECRETS,
    "ssl_keyfile": _OWN_PORT,
    "ssl_certfile": _OWN_PORT,
    "ssl_ca_certs": _OWN_PORT,
    "enable_ssl_refresh": _OWN_PORT,
    "ssl_cert_reqs": _OWN_PORT,
    "ssl_ciphers": _OWN_PORT,
    "root_path": _OWN_PORT,
    "middleware": _IN_FRONT,
    "enable_request_id_headers": "every response already has the header X-Request-Id",
    "disable_fastapi_docs": _LISTED_PATHS,
    "h11_max_incomplete_event_size": _OWN_PORT,
    "h11_max_header_count": _OWN_PORT,
    "data_parallel_supervisor_port": _RAY_PLACES,
    "dp_supervisor_probe_interval_s": _RAY_PLACES,
    "dp_supervisor_probe_timeout_s": _RAY_PLACES,
    "dp_supervisor_probe_failure_threshold": _RAY_PLACES,
}

# Accelerators that Ray counts as a resource other than GPU (TPU, HPU, neuron_cores, NPU, ...), and Apple's,
# which do not exist on Linux: a bundle that requests GPU would wait for them forever.
_NO_GPU = re.compile(r"(TPU-|Intel-GAUDI|aws-neuron|Ascend|FURIOSA|MOBILINT|Apple-|M\d+(-(Pro|Max|Ultra))?$)")

# Fields of FrontendArgs that reach vLLM's serving objects or app. Some of them only affect requests on the
# direct port of a replica: spec.runtime.directIngress. The script fails if a field is listed neither here nor
# above: a maintainer must check new fields first.
FRONTEND_USED = {
    "chat_template",
    "chat_template_content_format",
    "cohere_format",
    "cohere_is_reasoning_model",
    "default_chat_template_kwargs",
    "enable_auto_tool_choice",
    "enable_flash_late_interaction",
    "enable_force_include_usage",
    "enable_log_deltas",
    "enable_log_outputs",
    "enable_per_request_metrics",
    "enable_prompt_tokens_details",
    "exclude_tools_when_tool_choice_none",
    "fingerprint_mode",
    "fingerprint_value",
    "log_error_stack",
    "max_log_len",
    "response_role",
    "return_tokens_as_token_ids",
    "sse_keep_alive_interval",
    "tool_call_parser",
    "tool_server",
    "trust_request_chat_template",
}

_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class _Names(dict[str, object]):
    """Names for resolving annotations; a class imported only for type checking resolves to a dict type."""

    def __init__(self, module: str) -> None:
        self._scopes = (vars(sys.modules[module]), vars(builtins))

    def __missing__(self, name: str) -> object:
        for scope in self._scopes:
            if name in scope:
                return scope[name]
        return type(name, (dict,), {})


def _members(annotation: object) -> Iterator[object]:
    """Yield the alternatives of a union, with Annotated unwrapped."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from _members(typing.get_args(annotation)[0])
    elif origin in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


def json_types(annotation: object) -> list[str]:
    """Return the sorted JSON types that can express a value of the annotation; empty if there are none."""
    found: set[str] = set()
    for member in _members(annotation):
        origin = typing.get_origin(member) or member
        if origin is typing.Literal:
            found.update(_SCALARS[type(choice)] for choice in typing.get_args(member))
        elif origin is typing.Any:
            found.update(("array", "object", *_SCALARS.values()))
        elif origin in _SCALARS:
            found.add(_SCALARS[typing.cast(type, origin)])
        elif isinstance(origin, type) and issubclass(origin, enum.Enum):
            found.update(_SCALARS[type(choice.value)] for choice in origin)
        elif isinstance(origin, type) and issubclass(origin, (list, set, tuple)):
            found.add("array")
        elif isinstance(origin, type) and (issubclass(origin, dict) or dataclasses.is_dataclass(origin)):
            found.add("object")
    return sorted(found)


def choices(annotation: object) -> list[object]:
    """Return the fixed choices; empty unless every non-null member of the annotation is a Literal."""
    found: list[object] = []
    for member in _members(annotation):
        if typing.get_origin(member) is typing.Literal:
            found.extend(typing.get_args(member))
        elif member is not type(None):
            return []
    return sorted(found, key=lambda choice: (str(type(choice)), choice))


def type_text(annotation: object) -> str:
    """Return an annotation as written in source code, without module names."""
    parts = []
    for member in _members(annotation):
        if member is type(None):
            parts.append("None")
        elif typing.get_origin(member) is None and isinstance(member, type):
            parts.append(member.__name__)
        else:
            parts.append(re.sub(r"\b[A-Za-z_]\w*\.", "", str(member)))
    return " | ".join(parts)


def _default(field: "dataclasses.Field[object]") -> tuple[bool, object]:
    """Return (True, default) if the default is plain JSON, otherwise (False, None)."""
    value: object = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if isinstance(value, enum.Enum):
        value = value.value
    try:
        return True, json.loads(json.dumps(value))
    except TypeError:
        return False, None


def describe(field: "dataclasses.Field[object]", annotation: object) -> dict[str, object]:
    """Return the description of an argument: type, JSON types, choices and default."""
    entry: dict[str, object] = {"type": type_text(annotation), "json": json_types(annotation)}
    plain, default = _default(field)
    if plain and default is None and "null" not in json_types(annotation):
        # vLLM declares some arguments as non-null with None as default.
        entry["json"] = sorted([*json_types(annotation), "null"])
    if fixed := choices(annotation):
        entry["choices"] = fixed
    if plain:
        entry["default"] = default
    return entry


def collect(engine: type, frontend: type) -> dict[str, dict[str, object]]:
    """Return the descriptions of the arguments of both classes that a user may set.

    Raises SystemExit if an argument is not classified in this file.
    """
    arguments: dict[str, dict[str, object]] = {}
    known = {**OWNED, **REFUSED}
    observed = set()
    for cls, free in ((engine, None), (frontend, FRONTEND_USED)):
        hints = typing.get_type_hints(cls, localns=_Names(cls.__module__), include_extras=True)
        for field in dataclasses.fields(cls):
            observed.add(field.name)
            if field.name.startswith("_") or field.name in known or field.name in arguments:
                continue
            if free is not None and field.name not in free:
                raise SystemExit(f"{field.name} of {cls.__name__} is new; add it to FRONTEND_USED or REFUSED")
            arguments[field.name] = describe(field, hints[field.name])
    if gone := (set(known) | FRONTEND_USED) - observed:
        raise SystemExit(f"vLLM no longer has {', '.join(sorted(gone))}; remove them from this script")
    return arguments


def accelerator_types() -> list[str]:
    """Return the sorted accelerators that Ray counts as GPUs, the resource in the bundles of a replica."""
    module = importlib.import_module("ray.util.accelerators.accelerators")
    desired = {
        value
        for name, value in vars(module).items()
        if isinstance(value, str) and not name.startswith("_") and not _NO_GPU.match(value)
    }
    # Ray Serve LLM accepts A10 as a name of A10G.
    return sorted(desired | {"A10"})


def render(document: dict[str, object]) -> str:
    """Return the document as JSON with sorted keys and one line per argument, for readable diffs."""
    lines = []
    for key in sorted(document):
        value = document[key]
        if isinstance(value, dict):
            body = ",\n".join(
                f"  {json.dumps(k)}: {json.dumps(value[k], sort_keys=True)}" for k in sorted(value)
            )
            lines.append(f" {json.dumps(key)}: {{\n{body}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Print the document for the vLLM and Ray versions of this Python."""
    engine = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs
    frontend = importlib.import_module("vllm.entrypoints.launchers.cli_args").FrontendArgs
    document: dict[str, object] = {
        "vllm": sys.modules["vllm"].__version__,
        "ray": importlib.metadata.version("ray"),
        "arguments": collect(engine, frontend),
        "owned": OWNED,
        "refused": REFUSED,
        "accelerator_types": accelerator_types(),
    }
    sys.stdout.write(render(document))


if __name__ == "__main__":
    main()
