"""Server of Ray Serve LLM with a direct HTTP port."""

from daybreak_runtime.llm.server import LLMServer

__all__ = ["LLMServer"]
