"""What builds a ServeApplication with LLMs: them by Ray Serve LLM, and the rest by a person's function."""

from importlib import import_module
from operator import attrgetter
from typing import Any

from ray.serve import Application
from ray.serve._private.api import call_user_app_builder_with_args_if_necessary

ARGUMENT = "models"
"""Under that name the function finds the LLMs, by their names."""


def build(args: dict[str, Any]) -> Application:
    """The application.

    Args:
        args: `importPath` and `args` of the manifest, and `llms`: what Ray Serve LLM is told of each.

    Raises:
        ValueError: `importPath` names an application instead of a function that builds one.
    """
    module, _, name = args["importPath"].partition(":")
    builder = attrgetter(name)(import_module(module))
    if isinstance(builder, Application):
        raise ValueError(f"{args['importPath']} is built already: with spec.llms name a function that builds")
    given = {**args.get("args", {}), ARGUMENT: dict(map(_llm, args["llms"]))}
    return call_user_app_builder_with_args_if_necessary(builder, given)


def _llm(config: dict[str, Any]) -> tuple[str, Application]:
    """Name and deployment of an LLM."""
    # Where nothing of vLLM is needed it is not imported.
    from ray.serve.llm import LLMConfig, build_llm_deployment

    found = LLMConfig(**config)
    return found.model_id, build_llm_deployment(found)
