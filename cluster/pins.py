"""Versions of the cluster's components, from their single source, the operator's `versions.py`.

The file is run by its path and not imported: the cluster starts before the operator's package is installed.
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
