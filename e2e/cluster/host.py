"""Marks that the cluster leaves on the machine outside `.daybreak/`, and taking them away again.

A few paths are fixed in the kubelet and in CNI's library; what was not there before `up` is removed by
`down`.
"""

import json
import shutil
from pathlib import Path

from cluster import network, paths
from cluster.errors import ClusterError
from cluster.programs import run

_FIXED_PATHS = (
    # Sockets of device plugins, and links to the containers' logs.
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
    # What CNI plugins answered, kept by CNI's library.
    Path("/var/lib/cni"),
)


def remember() -> None:
    """Note, once, how the machine looks before the cluster."""
    if paths.HOST_STATE.exists():
        return
    paths.HOST_STATE.parent.mkdir(parents=True, exist_ok=True)
    new = [str(path) for path in _FIXED_PATHS if not path.exists()]
    paths.HOST_STATE.write_text(json.dumps({"forwarding": network.forwarding(), "new": new}))


def restore(*mounted: Path) -> None:
    """Unmount what is below `mounted` and put the machine back to what `remember` noted."""
    unmount(*mounted, *_FIXED_PATHS)
    state = json.loads(paths.HOST_STATE.read_text()) if paths.HOST_STATE.exists() else {"new": []}
    for path in state["new"]:
        shutil.rmtree(path, ignore_errors=True)
    _remove_log_links(Path("/var/log/containers"))
    if "forwarding" in state:
        network.set_forwarding(state["forwarding"])


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
    """Mount points in the order of mounting, out of /proc/self/mountinfo."""
    return [Path(line.split()[4].encode().decode("unicode_escape")) for line in text.splitlines()]


def _remove_log_links(folder: Path) -> None:
    """Remove the links to our containers' logs from a folder that was there before."""
    for link in folder.glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(paths.DAYBREAK):
            link.unlink()
