"""Where the cluster keeps its files: all of them under the repository's `.daybreak/`, sockets under `/run`.

Sockets and containerd's runtime state are in `/run/daybreak-<hash of the repository's path>`, because a unix
socket's path ends at 107 characters (containerd's shims allow only 42 for their directory) and because they
must be gone after a reboot. `cluster down` removes that directory.
"""

import hashlib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DAYBREAK = REPOSITORY / ".daybreak"

GO_MODULE = Path(__file__).resolve().parent / "go"
"""The Go module whose go.mod has the versions of all that the binaries are built from."""
BIN = DAYBREAK / "bin"
SHARE = DAYBREAK / "share"
"""Files that come with the Go modules: KubeRay's manifests and kwok's stages."""
KUBECONFIG = DAYBREAK / "kubeconfig"
"""Administrator of the full cluster."""

CLUSTER = DAYBREAK / "cluster"
"""State of the full cluster: certificates, etcd's data, containerd's images and snapshots, kubelet, logs."""
CONTAINERD_ROOT = CLUSTER / "containerd"
KUBELET_ROOT = CLUSTER / "kubelet"
POD_LOGS = CLUSTER / "pod-logs"
CNI_CONFIG = CLUSTER / "cni" / "net.d"
CNI_DATA = CLUSTER / "cni" / "networks"
HOST_STATE = CLUSTER / "host.json"
"""What the machine looked like before `up`, so that `down` can put it back."""

CONTROL_PLANE = DAYBREAK / "control-plane"
"""State of the control plane without nodes that `up --control-plane` starts."""
NAMED_CONTROL_PLANES = DAYBREAK / "control-planes"
"""One folder for each control plane that was started with a name."""
PORTS = DAYBREAK / "ports.json"
"""Which control plane holds which loopback ports."""


def run_directory(repository: Path) -> Path:
    """Folder for the sockets of the cluster of that checkout."""
    return Path("/run") / f"daybreak-{hashlib.sha256(str(repository).encode()).hexdigest()[:8]}"


RUN = run_directory(REPOSITORY)
CONTAINERD_SOCKET = RUN / "containerd.sock"
CONTAINERD_STATE = RUN / "containerd"
SHIM_SOCKETS = RUN / "s"

CNI_PLUGINS = Path("/usr/lib/cni")
"""Where Debian's containernetworking-plugins puts them."""


def control_plane(name: str = "") -> Path:
    """Directory of the control plane of that name, or of the one without a name."""
    return NAMED_CONTROL_PLANES / name if name else CONTROL_PLANE
