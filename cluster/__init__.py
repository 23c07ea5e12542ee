"""The embedded cluster: a real Kubernetes on one Linux machine, built from package registries alone.

`python -m cluster --help` says what it does; `ControlPlane` is the part that tests start for themselves.
"""

from cluster.build import kuberay_crds
from cluster.control_plane.fake_nodes import FakeNode
from cluster.control_plane.plane import ControlPlane
from cluster.errors import ClusterError

__all__ = ["ClusterError", "ControlPlane", "FakeNode", "kuberay_crds"]
