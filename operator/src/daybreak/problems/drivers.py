"""NVIDIA's drivers on the nodes: what torch, vLLM and the container runtime say when one does not fit."""

import re

from daybreak import versions

_TOO_OLD = re.compile(
    # torch, when it first asks for a device; it names the CUDA that the driver knows: 12080 is 12.8.
    r"NVIDIA driver on your system is too old(?: \(found version (?P<found>\d{4,6})\))?"
    # CUDA itself: cudaErrorInsufficientDriver, cudaErrorUnsupportedPtxVersion.
    r"|CUDA driver version is insufficient for CUDA runtime version"
    r"|provided PTX was compiled with an unsupported toolchain"
    # NVIDIA's container runtime, before the container starts, since the image says what it requires.
    r"|unsatisfied condition: cuda ?>=? ?[\d.]+",
    re.IGNORECASE,
)
# cudaErrorSystemDriverMismatch: the driver in the kernel and its libraries are of different versions.
_TORN = re.compile(r"unsupported display driver ?/ ?cuda driver combination", re.IGNORECASE)
# cudaErrorNoKernelImageForDevice.
_NO_CODE = re.compile(r"no kernel image is available for execution on the device", re.IGNORECASE)


def driver_error(message: str) -> str:
    """What is wrong with a node's driver or GPU, and the nearest fix; empty if the message is not of that."""
    if old := _TOO_OLD.search(message):
        knows = f", which knows CUDA {_cuda(old['found'])} at most," if old["found"] else ""
        return (
            f"the NVIDIA driver of the node{knows} is too old: CUDA {versions.CUDA} of Daybreak's image "
            f"needs {versions.NVIDIA_DRIVER_MINIMUM} or newer. To mend it, install a newer driver, name "
            "other nodes in accelerator.nodeSelector, or in runtime.image an image with a CUDA that the "
            "driver knows"
        )
    if _TORN.search(message):
        return (
            "the NVIDIA driver of the node is not of one version (system has unsupported display driver / "
            "cuda driver combination): its libraries were updated and its kernel module was not, or fabric "
            "manager differs. Reboot the node, or update both"
        )
    if _NO_CODE.search(message):
        return (
            "the image has no machine code for the node's GPU (no kernel image is available for execution on "
            f"the device): Daybreak's has it for the compute capabilities {versions.COMPUTE_CAPABILITIES}. "
            "Choose other nodes with accelerator.nodeSelector, or set runtime.image"
        )
    return ""


def _cuda(found: str) -> str:
    """12080 → 12.8."""
    return f"{int(found) // 1000}.{int(found) % 1000 // 10}"
