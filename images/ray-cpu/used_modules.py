"""Import what Ray Serve LLM, vLLM's engine and Ray's own processes import, so that Python keeps the bytecode.

The image's user cannot write next to the modules. Without their bytecode, each of a replica's processes would
compile the same 6,000 modules at every start. Compiling all 25,000 modules of the image would take four times
as long and 300 MB.

The second half also records facts about model classes that vLLM would otherwise collect at run time (KNOWN).

Usage: used_modules.py without-torch|with-torch. The first half may run while torch is still being changed.
"""

import compileall
import importlib
import os
import sys
from pathlib import Path

WITHOUT_TORCH = (
    "anthropic",
    "mcp",
    "mistral_common.protocol.instruct.request",
    "networkx",
    "openai",
    "pandas",
    "ray.autoscaler._private.kuberay.run_autoscaler",
    "ray.dashboard.agent",
    "ray.dashboard.dashboard",
    "ray.data",
    "ray.scripts.scripts",
    "ray.serve._private.controller",
    "ray.serve._private.proxy",
    "ray.serve._private.replica",
    "ray.serve.scripts",
    "sympy",
)
WITH_TORCH = (
    "ray.data.llm",
    "ray.llm._internal.serve.engines.vllm.vllm_engine",
    "ray.serve.llm",
    "vllm.entrypoints.openai.api_server",
    "vllm.model_executor.models.llama",
    "vllm.model_executor.models.qwen2",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.cpu_worker",
)
# Small packages of Ray's own processes. Their modules are imported by name at run time.
WHOLE = ("opencensus", "ray/_private", "ray/autoscaler", "ray/core/generated", "ray/dashboard")
ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM")
KNOWN = Path("/opt/daybreak/cache/vllm")
"""In the form of vLLM's own cache; `ray.sh` lays it there."""


def main(half: str) -> None:
    """Import the modules of one half; the first also compiles the small folders."""
    for module in WITH_TORCH if half == "with-torch" else WITHOUT_TORCH:
        importlib.import_module(module)
    if half == "without-torch":
        if "torch" in sys.modules:
            raise SystemExit("something of this half has begun to import torch: move it to the other")
        site = Path(importlib.import_module("ray").__file__ or "").parents[1]
        for folder in WHOLE:
            compileall.compile_dir(site / folder, quiet=1)
    else:
        know_models()


def know_models() -> None:
    """Keep what vLLM asks of a model's class: else each start of a pod imports vLLM once more for that."""
    os.environ["VLLM_CACHE_ROOT"] = str(KNOWN)
    registry = importlib.import_module("vllm.model_executor.models.registry")
    for architecture in ARCHITECTURES:
        model = registry.ModelRegistry.models[architecture]
        source = Path(registry.__file__).with_name(model.module_name.rpartition(".")[2] + ".py")
        info = registry._ModelInfo.from_model_cls(model.load_model_cls())
        model._save_modelinfo_to_cache(info, model._get_modelinfo_module_hash(source))
    kept = list(KNOWN.glob("modelinfos/*.json"))
    if len(kept) != len(ARCHITECTURES):
        raise SystemExit("vLLM has kept nothing of its models: has its registry changed?")
    for file in kept:
        file.chmod(0o644)  # the image's user copies it


if __name__ == "__main__":
    main(sys.argv[1])
