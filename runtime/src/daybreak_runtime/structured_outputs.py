"""Single backend for structured outputs.

With `backend: auto`, vLLM chooses a backend for each request, but its engine keeps the one of the first
request. A request for another backend then ends the engine (CVE-2026-105757, fixed in vLLM 0.30).
"""

from typing import Any

BACKEND = "xgrammar"
"""First choice of `auto`. A request that it cannot serve receives 400."""


def use_one_backend(engine_config: Any) -> None:
    """Replace `auto` in vLLM's configuration by one backend. Any other choice stays."""
    config = engine_config.structured_outputs_config
    if config.backend == "auto":
        config.backend = BACKEND
