"""Write the configuration of the installed Ray's Serve and Serve LLM as JSON schemas.

Run it with the Python of the Ray image, which has ray[llm]. The JSON on standard output is committed as
tests/unit/ray/serve_schema.json. The tests validate every configuration that the builders write with it, in
an environment without Ray. The schemas reject fields that Ray does not know, even if Ray itself silently
ignores them.
"""

import contextlib
import importlib
import importlib.metadata
import inspect
import json
import re
import sys
import warnings
from typing import Any

MODELS = {
    "document": "ray.serve.schema:ServeDeploySchema",
    "actor_options": "ray.serve.schema:RayActorOptionsSchema",
    "autoscaling": "ray.serve.config:AutoscalingConfig",
    "args": "ray.llm._internal.serve.core.ingress.builder:LLMServingArgs",
    "llm_config": "ray.llm._internal.serve.core.configs.llm_config:LLMConfig",
    "model_loading": "ray.llm._internal.serve.core.configs.llm_config:ModelLoadingConfig",
    "placement_group": "ray.llm._internal.common.placement:PlacementGroupConfig",
    "request_router": "ray.serve.config:RequestRouterConfig",
}
ROUTERS = (
    "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter",
    "ray.serve.experimental.round_robin_router:RoundRobinRouter",
    "ray.serve.experimental.consistent_hash_router:ConsistentHashRouter",
    "ray.serve.llm.request_router:PrefixCacheAffinityRouter",
)
"""Request routers, which have arguments that no schema lists."""
_PROSE = ("title", "description", "default", "examples")


def schema_of(path: str) -> Any:
    """Return the JSON schema of the pydantic model at `module:name`."""
    module, _, name = path.partition(":")
    model = getattr(importlib.import_module(module), name)
    return _strict(model.model_json_schema())


def _strict(schema: Any) -> Any:
    """Return the schema without prose, and with every object closed that lists its fields."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            strict[key] = {name: _strict(part) for name, part in value.items()}
        elif key not in _PROSE:
            strict[key] = _strict(value)
    if "properties" in strict:
        strict.setdefault("additionalProperties", False)
    return strict


def arguments_of(path: str) -> list[str]:
    """Return the arguments that the request router at `module:name` reads in its `initialize_state`."""
    module, _, name = path.partition(":")
    initialize = getattr(importlib.import_module(module), name).initialize_state
    signature = inspect.signature(initialize)
    named = [each.name for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    if len(named) == len(signature.parameters):
        return sorted(set(named) - {"self"})
    return sorted(set(re.findall(r'kwargs\.get\(\s*"(\w+)"', inspect.getsource(initialize))))


def main() -> int:
    """Print the schemas."""
    # Some defaults are classes, which JSON cannot represent; defaults are omitted anyway.
    warnings.simplefilter("ignore")
    # vLLM writes its log to standard output.
    with contextlib.redirect_stdout(sys.stderr):
        schemas = {name: schema_of(path) for name, path in MODELS.items()}
        routers = {path: arguments_of(path) for path in ROUTERS}
    document = {"ray": importlib.metadata.version("ray"), "routers": routers, "schemas": schemas}
    json.dump(document, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
