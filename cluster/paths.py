"""Paths of the cluster's files: all under the repository's `.daybreak/`, sockets under `/run`.

Sockets and containerd's runtime state are in `/run/daybreak-<hash of the repository's path>`, for two
reasons. The path of a Unix socket has at most 107 characters (containerd's shims allow only 42 for their
directory), and the files must disappear at a reboot. `cluster down` removes that directory.
"""

import hashlib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DAYBREAK = REPOSITORY / ".daybreak"

GO_MODULE = Path(__file__).resolve().parent / "go"
"""Go module whose go.mod has the versions of all sources of the binaries."""
BIN = DAYBREAK / "bin"
SHARE = DAYBREAK / "share"
"""Files from the Go modules: KubeRay's manifests and kwok's stages."""
KUBECONFIG = DAYBREAK / "kubeconfig"
"""Kubeconfig of the administrator of the full cluster."""

CLUSTER = DAYBREAK / "cluster"
"""State of the full cluster: certificates, etcd's data, containerd's images and snapshots, kubelet, logs."""
CONTAINERD_ROOT = CLUSTER / "containerd"
KUBELET_ROOT = CLUSTER / "kubelet"
POD_LOGS = CLUSTER / "pod-logs"
CNI_CONFIG = CLUSTER / "cni" / "net.d"
CNI_DATA = CLUSTER / "cni" / "networks"
HOST_STATE = CLUSTER / "host.json"
"""State of the machine before `up`, which `down` restores."""

CONTROL_PLANE = DAYBREAK / "control-plane"
"""State of the control plane without nodes that `up --control-plane` starts."""
NAMED_CONTROL_PLANES = DAYBREAK / "control-planes"
"""Folder of the control planes with a name, one subfolder each."""
PORTS = DAYBREAK / "ports.json"
"""Record of the loopback ports that each control plane has reserved."""


def run_directory(repository: Path) -> Path:
    """Return the folder for the sockets of that checkout's cluster."""
    return Path("/run") / f"daybreak-{hashlib.sha256(str(repository).encode()).hexdigest()[:8]}"


RUN = run_directory(REPOSITORY)
CONTAINERD_SOCKET = RUN / "containerd.sock"
CONTAINERD_STATE = RUN / "containerd"
SHIM_SOCKETS = RUN / "s"

CNI_PLUGINS = Path("/usr/lib/cni")
"""Folder of the plugins in Debian's package containernetworking-plugins."""


def control_plane(name: str = "") -> Path:
    """Return the directory of the named control plane, or of the one without a name."""
    return NAMED_CONTROL_PLANES / name if name else CONTROL_PLANE
