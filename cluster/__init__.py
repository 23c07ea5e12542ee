"""Embedded cluster: a real Kubernetes on one Linux machine, built from package registries alone.

`python -m cluster --help` lists the commands. Tests start a `ControlPlane` directly.
"""

from cluster.build import kuberay_crds
from cluster.control_plane.fake_nodes import FakeNode
from cluster.control_plane.plane import ControlPlane
from cluster.errors import ClusterError

__all__ = ["ClusterError", "ControlPlane", "FakeNode", "kuberay_crds"]
