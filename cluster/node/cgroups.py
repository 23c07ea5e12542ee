"""Control groups (cgroups): all processes of the full cluster are below one group, `/daybreak`.

Servers are in `/daybreak/system`, pods in `/daybreak/kubepods` (the kubelet's cgroupRoot). All processes can
therefore be found and killed by their group, even if their record was lost, and never by a name. Both
version 1 (one tree for each controller) and version 2 (one tree) work.
"""

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from cluster.errors import ClusterError

ROOT = "/daybreak"
"""Path of the group in every tree."""
_SYSTEM = "system"
_NEEDED = ("cpu", "cpuset", "memory", "pids")
_PASSED_ON = (*_NEEDED, "hugetlb", "io", "rdma", "misc")
"""Version 2: controllers to enable for the group if the kernel has them; the kubelet needs all."""
_CLUSTER_SHARE = {"cpu.shares": 8192, "cpu.weight": 800}
"""CPU share of the whole cluster in version 1 and 2.

The kernel weighs a group like one process outside, and this group has some fifty that compute when models
start.
"""
_SERVERS_SHARE = {"cpu.shares": 4096, "cpu.weight": 400}
"""CPU share of the servers in version 1 and 2, four times the default.

On a machine that is busy loading models, the control plane must still renew its leases.
"""


def parse_mounts(text: str) -> tuple[int, list[Path]]:
    """Parse the version and the roots of the trees from /proc/self/mountinfo."""
    trees: dict[Path, set[str]] = {}
    unified: list[Path] = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        mount = Path(left.split()[4])
        if kind == "cgroup2":
            unified.append(mount)
        elif kind == "cgroup":
            trees[mount] = set(options.split(","))
    controllers = set().union(*trees.values()) if trees else set()
    if controllers.issuperset(_NEEDED):
        # systemd mounts an empty version 2 tree next to the others; runc creates its groups there as well.
        return 1, [*trees, *unified]
    return 2, unified[:1]


def check() -> int:
    """Return the version of cgroups on this machine, or raise an error if the kubelet cannot use them."""
    version, trees = _trees()
    if not trees:
        raise ClusterError(
            "control groups are not mounted at /sys/fs/cgroup: mount them, or start the container "
            "with --privileged --cgroupns=host"
        )
    if version == 2:
        have = set((trees[0] / "cgroup.controllers").read_text().split())
        if missing := set(_NEEDED) - have:
            raise ClusterError(f"control group controllers are missing: {', '.join(sorted(missing))}")
    return version


def create() -> None:
    """Create the missing groups."""
    version, trees = _trees()
    if version == 2:
        _enable_controllers(trees[0])
    for tree in trees:
        for group in (tree / ROOT[1:], tree / ROOT[1:] / _SYSTEM):
            group.mkdir(exist_ok=True)
            if version == 1:
                _inherit_cpuset(group)
        _set(tree / ROOT[1:], _CLUSTER_SHARE)
        _set(tree / ROOT[1:] / _SYSTEM, _SERVERS_SHARE)


def join(pid: int) -> None:
    """Move a process to the servers' group; its children start there."""
    for tree in _trees()[1]:
        (tree / ROOT[1:] / _SYSTEM / "cgroup.procs").write_text(str(pid))


def processes() -> set[int]:
    """Return the ids of all processes below the group."""
    found: set[int] = set()
    for tree in _trees()[1]:
        for file in (tree / ROOT[1:]).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                found.update(int(line) for line in file.read_text().split())
    return found


def memory_bytes(name: str) -> int | None:
    """Return the memory of the named group below the kubelet's in bytes, or None if no group has the name."""
    for tree in _trees()[1]:
        for group in (tree / ROOT[1:] / "kubepods").rglob(name):
            for file in (group / "memory.usage_in_bytes", group / "memory.current"):
                with contextlib.suppress(OSError):
                    return int(file.read_text())
    return None


def kill(seconds: float = 30.0) -> None:
    """Kill every process below the group and wait until all have ended."""
    deadline = time.monotonic() + seconds
    while left := processes():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise ClusterError(f"processes of the cluster do not end: {', '.join(map(str, sorted(left)))}")
        time.sleep(0.05)


def remove() -> None:
    """Remove the groups, deepest first."""
    for tree in _trees()[1]:
        group = tree / ROOT[1:]
        if group.exists():
            for folder in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                folder.rmdir()
            group.rmdir()


def _trees() -> tuple[int, list[Path]]:
    return parse_mounts(Path("/proc/self/mountinfo").read_text())


def _enable_controllers(tree: Path) -> None:
    """Enable the controllers of version 2: a group has the controllers that its parent delegates."""
    have = (tree / "cgroup.controllers").read_text().split()
    desired = " ".join(f"+{name}" for name in have if name in _PASSED_ON)
    try:
        (tree / "cgroup.subtree_control").write_text(desired)
    except OSError as error:
        # The root of a container's own namespace has processes, and then the kernel refuses.
        raise ClusterError(
            f"control groups cannot be passed on ({error.strerror}): start the container with --cgroupns=host"
        ) from None
    group = tree / ROOT[1:]
    group.mkdir(exist_ok=True)
    (group / "cgroup.subtree_control").write_text(desired)


def _set(group: Path, values: Mapping[str, int]) -> None:
    """Write those of the group's files that exist: each tree has its own."""
    for name, value in values.items():
        if (group / name).exists():
            (group / name).write_text(str(value))


def _inherit_cpuset(group: Path) -> None:
    """Copy the parent's cpuset: a new version 1 cpuset is empty, and nothing can run in it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = group / name
        if file.exists() and not file.read_text().strip():
            file.write_text((group.parent / name).read_text())
