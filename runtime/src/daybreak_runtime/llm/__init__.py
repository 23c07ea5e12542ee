"""Ray Serve LLM's server with an HTTP port of its own."""

from daybreak_runtime.llm.server import LLMServer

__all__ = ["LLMServer"]
