"""Nodes that exist only as objects, with fake GPUs: kwok plays their kubelet and says that their pods run.

For tests of placement (STRICT_PACK, taints, the fit check) on a machine without a GPU. Nothing runs in such
a pod.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError

_ANNOTATION = "kwok.x-k8s.io/node"
SELECTOR = f"{_ANNOTATION}=fake"
"""The nodes that kwok may touch: a real node beside them does not carry this annotation."""
GPU = "nvidia.com/gpu"
STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-*.yaml",
)
"""Where, under kustomize/stage in kwok's module, the life of nodes and pods is described."""


@dataclass(frozen=True)
class FakeNode:
    """One node to make.

    Attributes:
        name: Its name.
        gpus: Allocatable `nvidia.com/gpu`.
        labels: Labels beside the usual ones, for node selectors.
        taints: Taints as `key=value:Effect`. GPU nodes of the large clouds carry such a taint, and it keeps
            ordinary pods away, which would only seem to run here.
        cpus: Allocatable CPUs.
        memory: Allocatable memory, a Kubernetes quantity.
    """

    name: str
    gpus: int = 8
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[str] = (f"{GPU}=present:NoSchedule",)
    cpus: int = 96
    memory: str = "1Ti"

    def manifest(self) -> dict[str, Any]:
        """The Node object."""
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
    """A taint from `key=value:Effect` or `key:Effect`, as kubectl writes it."""
    name, colon, effect = text.rpartition(":")
    key, _, value = name.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ClusterError(f"taint {text!r}: write key=value:NoSchedule (or PreferNoSchedule, NoExecute)")
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


def manifests(nodes: Sequence[FakeNode]) -> str:
    """The nodes as one list to apply."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [node.manifest() for node in nodes]})


def stages(share: Path) -> Path:
    """The file with kwok's stages, which `build` copies out of kwok's module."""
    file = share / "kwok-stages.yaml"
    if not file.exists():
        raise ClusterError("kwok's stages are missing: run `python -m cluster build` (PYTHONPATH=.)")
    return file
