"""containerd: its configuration and the import of images.

There is no registry: the package `cluster.images` and this module import the images. A pod without its image
fails as in any other cluster (ErrImagePull).
"""

import json
import platform
import tempfile
import time
from pathlib import Path

from cluster import paths, pins
from cluster.errors import ClusterError
from cluster.images.static_image import REGISTRY, StaticImage
from cluster.tools import files
from cluster.tools.processes import Processes
from cluster.tools.programs import run

NAME = "containerd"
NAMESPACE = "k8s.io"
"""Namespace of containerd that the kubelet uses."""
PAUSE_IMAGE = f"{REGISTRY}/pause:1"
COREDNS_IMAGE = f"{REGISTRY}/coredns:v{pins.COREDNS}"
KUBERAY_IMAGE = f"{REGISTRY}/kuberay-operator:v{pins.KUBERAY}"


def ctr(*arguments: str) -> list[str]:
    """Return the command line of containerd's client for the kubelet's images and containers."""
    return [
        str(paths.BIN / "ctr"),
        "--address",
        str(paths.CONTAINERD_SOCKET),
        "--namespace",
        NAMESPACE,
        *arguments,
    ]


def config(restrict_oom_score: bool) -> str:
    """Return containerd's configuration (version 4, TOML).

    Args:
        restrict_oom_score: Never give a container a lower oom_score_adj than containerd's own, which needs
            CAP_SYS_RESOURCE.
    """
    return f"""version = 4
root = {_toml(paths.CONTAINERD_ROOT)}
state = {_toml(paths.CONTAINERD_STATE)}
# Nothing from the machine's own containerd, should there be one.
imports = []
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.tracing.processor.v1.otlp",
]

[plugins."io.containerd.server.v1.grpc"]
address = {_toml(paths.CONTAINERD_SOCKET)}

[plugins."io.containerd.server.v1.ttrpc"]
address = {_toml(f"{paths.CONTAINERD_SOCKET}.ttrpc")}

[plugins."io.containerd.shim.v1.manager"]
socket_dir = {_toml(paths.SHIM_SOCKETS)}

[plugins."io.containerd.internal.v1.opt"]
path = {_toml(paths.CONTAINERD_ROOT / "opt")}

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
# Image tests of an unreachable registry must not take minutes.
image_pull_progress_timeout = "30s"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = {_toml(restrict_oom_score)}
netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [{_toml(paths.CNI_PLUGINS)}]
conf_dir = {_toml(paths.CNI_CONFIG)}

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = {_toml(paths.RUN / "runc")}
"""


def start(processes: Processes, environment: dict[str, str], restrict_oom_score: bool) -> int:
    """Start containerd, wait until it responds, and return its process id."""
    for folder in (paths.RUN, paths.SHIM_SOCKETS, paths.CONTAINERD_STATE):
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    file = paths.CLUSTER / "containerd.toml"
    mark = files.write(file, config(restrict_oom_score))
    command = [str(paths.BIN / "containerd"), "--config", str(file), "--log-level", "info"]
    record = processes.start(NAME, command, {**environment, **mark})
    deadline = time.monotonic() + 60
    while not _answers():
        processes.check(NAME)
        if time.monotonic() > deadline:
            raise ClusterError(f"containerd does not answer after 60 s: {processes.last_line(NAME)}")
        time.sleep(0.1)
    return record.pid


def load(image: StaticImage) -> None:
    """Import the image into containerd unless containerd has it."""
    with tempfile.TemporaryDirectory(dir=paths.CLUSTER) as folder:
        archive = Path(folder) / "image.tar"
        digest = image.write(archive, platform.machine())
        if _present(image.reference) != digest:
            run(ctr("images", "import", "--digests=false", str(archive)))


def _present(reference: str) -> str | None:
    """Return the digest of the named image, or None if containerd does not have it."""
    lines = run(ctr("images", "list", f"name=={reference}")).splitlines()[1:]
    return lines[0].split()[2] if lines else None


def _answers() -> bool:
    try:
        run(ctr("version"), timeout=10)
    except ClusterError:
        return False
    return True


def _toml(value: object) -> str:
    """Return a string or boolean in TOML, which writes both like JSON."""
    return json.dumps(value if isinstance(value, bool) else str(value))
