"""Nodes with fake GPUs that exist only as objects: kwok simulates their kubelet and marks pods as running.

Tests of placement (STRICT_PACK, taints, the fit check) use them on a machine without a GPU. Nothing runs in
such a pod.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError

_ANNOTATION = "kwok.x-k8s.io/node"
SELECTOR = f"{_ANNOTATION}=fake"
"""Selector of the nodes that kwok may change; real nodes do not carry this annotation."""
GPU = "nvidia.com/gpu"
STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-*.yaml",
)
"""Files under kustomize/stage in kwok's module that describe the life cycle of nodes and pods."""


@dataclass(frozen=True)
class FakeNode:
    """Fake node to create.

    Attributes:
        name: Name of the node.
        gpus: Allocatable `nvidia.com/gpu`.
        labels: Labels in addition to the standard ones, for node selectors.
        taints: Taints as `key=value:Effect`. GPU nodes of the large clouds carry such a taint. It keeps
            ordinary pods away, which would only appear to run here.
        cpus: Allocatable CPUs.
        memory: Allocatable memory, as a Kubernetes quantity.
    """

    name: str
    gpus: int = 8
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[str] = (f"{GPU}=present:NoSchedule",)
    cpus: int = 96
    memory: str = "1Ti"

    def manifest(self) -> dict[str, Any]:
        """Return the Node object."""
        capacity = {"cpu": str(self.cpus), "memory": self.memory, "pods": "110", "ephemeral-storage": "1Ti"}
        if self.gpus:
            capacity[GPU] = str(self.gpus)
        usual = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "annotations": {_ANNOTATION: "fake"},
                "labels": {**usual, "type": "kwok", **self.labels},
            },
            "spec": {"taints": [parse_taint(taint) for taint in self.taints]},
            "status": {"capacity": capacity, "allocatable": capacity},
        }


def parse_taint(text: str) -> dict[str, str]:
    """Parse a taint from `key=value:Effect` or `key:Effect`, the notation of kubectl."""
    name, colon, effect = text.rpartition(":")
    key, _, value = name.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ClusterError(f"taint {text!r}: write key=value:NoSchedule (or PreferNoSchedule, NoExecute)")
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


def manifests(nodes: Sequence[FakeNode]) -> str:
    """Return the nodes as one list to apply."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [node.manifest() for node in nodes]})


def stages(share: Path) -> Path:
    """Return the file with kwok's stages, which `build` copies out of kwok's module."""
    file = share / "kwok-stages.yaml"
    if not file.exists():
        raise ClusterError("kwok's stages are missing: run `python -m cluster build` (PYTHONPATH=.)")
    return file
