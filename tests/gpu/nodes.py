"""The fake nodes of the GPU tests."""

from cluster import ControlPlane, FakeNode
from tests.api.admin import Admin

PRODUCT = "nvidia.com/gpu.product"
"""The label that NVIDIA's GPU feature discovery puts on a node."""
H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"


def h100(name: str, gpus: int, **labels: str) -> FakeNode:
    """Return a node with GPUs of 80 GB, tainted as GPU nodes of the large clouds are."""
    return FakeNode(name, gpus=gpus, labels={PRODUCT: H100, **labels})


def standing() -> list[FakeNode]:
    """The nodes that are always there: 12 GPUs, never more than four of them on one node."""
    return [
        FakeNode("plain-0", gpus=0, taints=()),
        FakeNode("l4-0", gpus=4, labels={PRODUCT: L4}, taints=()),
        h100("h100-0", 4),
        h100("h100-1", 4),
    ]


LONGEST_BACKOFF = 1
"""Seconds after which the scheduler tries a pod at once when something comes free."""


class Nodes:
    """Adds nodes for a test, and takes them away."""

    def __init__(self, plane: ControlPlane, admin: Admin) -> None:
        self._plane = plane
        self._admin = admin
        self._added: list[str] = []

    def add(self, *nodes: FakeNode) -> None:
        """Make nodes and wait until they are ready."""
        self._added += [node.name for node in nodes]
        self._plane.add_fake_nodes(nodes)

    def remove(self) -> None:
        """Take away what was added."""
        for name in self._added:
            self._admin.delete("Node", name)
