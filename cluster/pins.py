"""The versions of the cluster's parts, read from the operator's `versions.py`, the one place for them.

Read by path, not imported: the cluster is started before the operator's package is installed anywhere.
"""

import runpy

from cluster.paths import REPOSITORY

_versions = runpy.run_path(str(REPOSITORY / "operator" / "src" / "daybreak" / "versions.py"))

KUBERNETES: str = _versions["KUBERNETES"]
ETCD: str = _versions["ETCD"]
CONTAINERD: str = _versions["CONTAINERD"]
COREDNS: str = _versions["COREDNS"]
KUBERAY: str = _versions["KUBERAY"]
HELM: str = _versions["HELM"]
KWOK: str = _versions["KWOK"]
