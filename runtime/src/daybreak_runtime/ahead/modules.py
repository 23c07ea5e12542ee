"""Imports of the standby server: all modules of vLLM's processes that need no device.

Only that server may import this module. FlashInfer, and any module that imports it, begins to use CUDA at its
import.
"""

from daybreak_runtime.ahead import processes, standby

_ENGINE = (
    "vllm.v1.engine.core",
    "vllm.v1.executor.uniproc_executor",
    "vllm.v1.executor.multiproc_executor",
    "vllm.model_executor.model_loader",
    "vllm.model_executor.models.llama",
    "vllm.plugins",
)
_WORKER = {
    "cpu": ("vllm.v1.worker.cpu_worker", "vllm.v1.worker.cpu_model_runner"),
    "cuda": (
        "vllm.v1.worker.gpu_worker",
        "vllm.v1.worker.gpu_model_runner",
        "vllm.v1.worker.gpu.model_runner",
        "vllm.v1.attention.backends.flash_attn",
        "torch._inductor.compile_fx",
    ),
}


def _modules() -> list[str]:
    from vllm.platforms import current_platform

    return [*_ENGINE, *_WORKER.get(current_platform.device_type, ())]


standby.import_all(_modules())
processes.use()
