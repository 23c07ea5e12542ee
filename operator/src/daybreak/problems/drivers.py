"""Errors of NVIDIA drivers on nodes, as torch, vLLM and the container runtime report them."""

import re

from daybreak import versions

_TOO_OLD = re.compile(
    # torch, at its first request for a device; it names the CUDA version that the driver supports: 12080 is
    # 12.8.
    r"NVIDIA driver on your system is too old(?: \(found version (?P<found>\d{4,6})\))?"
    # CUDA itself: cudaErrorInsufficientDriver, cudaErrorUnsupportedPtxVersion.
    r"|CUDA driver version is insufficient for CUDA runtime version"
    r"|provided PTX was compiled with an unsupported toolchain"
    # NVIDIA's container runtime, before the container starts, because the image states its requirement.
    r"|unsatisfied condition: cuda ?>=? ?[\d.]+",
    re.IGNORECASE,
)
# cudaErrorSystemDriverMismatch: the kernel driver and its libraries have different versions.
_TORN = re.compile(r"unsupported display driver ?/ ?cuda driver combination", re.IGNORECASE)
# cudaErrorNoKernelImageForDevice.
_NO_CODE = re.compile(r"no kernel image is available for execution on the device", re.IGNORECASE)


def driver_error(message: str) -> str:
    """Return the problem of a node's driver or GPU, with the nearest fix. Empty for other messages."""
    if old := _TOO_OLD.search(message):
        knows = f", which knows CUDA {_cuda(old['found'])} at most," if old["found"] else ""
        return (
            f"the NVIDIA driver of the node{knows} is too old: CUDA {versions.CUDA} of Daybreak's image "
            f"needs {versions.NVIDIA_DRIVER_MINIMUM} or newer. Install a newer driver, select "
            "other nodes in accelerator.nodeSelector, or set runtime.image to an image whose CUDA the driver "
            "supports"
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
    """Return a version number in its usual form: 12080 → 12.8."""
    return f"{int(found) // 1000}.{int(found) % 1000 // 10}"
