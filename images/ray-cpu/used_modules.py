"""Import what Ray Serve LLM, vLLM's engine and Ray's own processes import, so that Python keeps the bytecode.

The image's user cannot write beside the modules: without their bytecode, each of the several processes of one
replica would compile the same 6,000 modules again at every start. To compile all 25,000 of the image would
take four times as long and 300 MB.
"""

import compileall
import importlib
from pathlib import Path

MODULES = (
    "ray.autoscaler._private.kuberay.run_autoscaler",
    "ray.dashboard.agent",
    "ray.dashboard.dashboard",
    "ray.data.llm",
    "ray.llm._internal.serve.engines.vllm.vllm_engine",
    "ray.scripts.scripts",
    "ray.serve._private.controller",
    "ray.serve._private.proxy",
    "ray.serve._private.replica",
    "ray.serve.llm",
    "ray.serve.scripts",
    "vllm.entrypoints.openai.api_server",
    "vllm.model_executor.models.llama",
    "vllm.model_executor.models.qwen2",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.cpu_worker",
)
# Small ones whose parts are imported by name at run time.
WHOLE = ("opencensus", "ray/_private", "ray/autoscaler", "ray/core/generated", "ray/dashboard")


def main() -> None:
    """Import the modules, then compile the folders."""
    for module in MODULES:
        importlib.import_module(module)
    site = Path(importlib.import_module("ray").__file__ or "").parents[1]
    for folder in WHOLE:
        compileall.compile_dir(site / folder, quiet=1)


if __name__ == "__main__":
    main()
