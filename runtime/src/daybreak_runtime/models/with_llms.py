"""Builder of a ServeApplication with LLMs: Ray Serve LLM builds them, and the user's function the rest."""

from importlib import import_module
from operator import attrgetter
from typing import Any

from ray.serve import Application
from ray.serve._private.api import call_user_app_builder_with_args_if_necessary

ARGUMENT = "models"
"""Argument by which the function receives the LLMs, by their names."""


def build(args: dict[str, Any]) -> Application:
    """Build the application.

    Args:
        args: `importPath` and `args` of the manifest, and `llms`: Ray Serve LLM's configuration of each.

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
    """Return name and deployment of an LLM."""
    # vLLM is imported only if it is needed.
    from ray.serve.llm import LLMConfig, build_llm_deployment

    found = LLMConfig(**config)
    return found.model_id, build_llm_deployment(found)
