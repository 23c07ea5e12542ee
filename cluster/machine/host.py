"""Marks of the cluster on the machine outside `.daybreak/`, and their removal.

A few paths are fixed in the kubelet and in CNI's library; `down` removes those that did not exist before
`up`. It also restores the previous values of kernel parameters.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from cluster import paths
from cluster.errors import ClusterError
from cluster.tools.programs import run

_FIXED_PATHS = (
    # Sockets of device plugins, and links to the containers' logs.
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
    # Results of CNI plugins, kept by CNI's library.
    Path("/var/lib/cni"),
)
_PARAMETERS = (
    # Set by `network.create`.
    "net/ipv4/ip_forward",
    # Set by the kubelet when it starts (setupKernelTunables). kube-proxy sets none: see `node.kubelet`.
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""Files below /proc/sys."""
_PROC_SYS = Path("/proc/sys")


def remember() -> None:
    """Record, once, the state of the machine before the cluster."""
    if paths.HOST_STATE.exists():
        return
    paths.HOST_STATE.parent.mkdir(parents=True, exist_ok=True)
    new = [str(path) for path in _FIXED_PATHS if not path.exists()]
    paths.HOST_STATE.write_text(json.dumps({"parameters": parameters(), "new": new}))


def restore(*mounted: Path) -> None:
    """Unmount everything below `mounted`, and restore the state recorded by `remember`."""
    unmount(*mounted, *_FIXED_PATHS)
    state = json.loads(paths.HOST_STATE.read_text()) if paths.HOST_STATE.exists() else {}
    for path in state.get("new", []):
        shutil.rmtree(path, ignore_errors=True)
    _remove_log_links(Path("/var/log/containers"))
    set_parameters(state.get("parameters", {}))


def parameters(folder: Path = _PROC_SYS) -> dict[str, str]:
    """Return the values of the kernel parameters that a cluster changes and this kernel has."""
    return {name: (folder / name).read_text().strip() for name in _PARAMETERS if (folder / name).exists()}


def set_parameters(values: Mapping[str, str], folder: Path = _PROC_SYS) -> None:
    """Restore the values that `parameters` returned, and write only those that differ.

    A process may lack the permission to write them.
    """
    now = parameters(folder)
    for name, value in values.items():
        if name in now and now[name] != value:
            (folder / name).write_text(value)


def unmount(*roots: Path) -> None:
    """Unmount everything below these folders, the latest mount first."""
    mounted = parse_mountpoints(Path("/proc/self/mountinfo").read_text())
    for point in reversed(mounted):
        if any(point.is_relative_to(root) for root in roots):
            run(["umount", "--lazy", point])
    left = parse_mountpoints(Path("/proc/self/mountinfo").read_text())
    if still := [point for point in left if any(point.is_relative_to(root) for root in roots)]:
        raise ClusterError(f"still mounted: {still[0]}: find out who uses it (fuser -m) and run `down` again")


def parse_mountpoints(text: str) -> list[Path]:
    """Parse the mount points of /proc/self/mountinfo, in the order of mounting."""
    return [Path(line.split()[4].encode().decode("unicode_escape")) for line in text.splitlines()]


def _remove_log_links(folder: Path) -> None:
    """Remove the links to the cluster's container logs from a folder that existed before."""
    for link in folder.glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(paths.DAYBREAK):
            link.unlink()
