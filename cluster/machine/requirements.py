"""Requirements of the cluster on the machine; each violation is reported in one line."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster import paths
from cluster.errors import ClusterError
from cluster.tools.programs import run, search_path
from cluster.tools.report import Report

DEBIAN_PACKAGES: Mapping[str, str] = {
    "runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mount": "mount",
}
"""Debian package of each program that the cluster calls."""
FREE_GIB = 30
"""Disk space for a first `up` with the Ray image, in GiB, including the caches of Go and PyPI."""
FREE_GIB_RUNNING = 5
"""Disk space for a later `up`, in GiB. With less, the kubelet would soon evict pods."""
MEMORY_GIB = 11
"""Memory for the cluster and the sample model on the CPU, in GiB; a machine sold with 12 provides it."""


def check_platform() -> None:
    """Raise an error unless the system is Linux."""
    if sys.platform != "linux":
        raise ClusterError(
            f"the embedded cluster runs on Linux only, this is {sys.platform}: set KUBECONFIG instead"
        )


def check_root() -> None:
    """Raise an error unless the program runs as root."""
    if os.geteuid() != 0:
        raise ClusterError(
            "a node needs network devices and mounts: run it as root (sudo -E env PATH=$PATH make up)"
        )


def check_space(fresh: bool) -> None:
    """Raise an error if disk space or memory is too small."""
    need = FREE_GIB if fresh else FREE_GIB_RUNNING
    free = shutil.disk_usage(paths.DAYBREAK).free / 2**30
    if free < need:
        raise ClusterError(
            f"{free:.0f} GiB of disk are free in {paths.DAYBREAK}, {need} are needed: free disk space"
        )
    memory = parse_meminfo(Path("/proc/meminfo").read_text()) / 2**30
    if memory < MEMORY_GIB:
        raise ClusterError(f"this machine has {memory:.0f} GiB of memory, {MEMORY_GIB} are needed")


def parse_meminfo(text: str, field: str = "MemTotal") -> int:
    """Return one field of /proc/meminfo, in bytes."""
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{field}:"))


def install_packages(report: Report) -> None:
    """Install the Debian packages of missing programs, if any."""
    missing = missing_packages()
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise ClusterError(
            f"{', '.join(missing)}: not installed and there is no apt-get: install them by hand"
        )
    with report.step(f"apt-get install {' '.join(missing)}", expect_seconds=60):
        quiet, packages = {"DEBIAN_FRONTEND": "noninteractive"}, f"Debian packages ({', '.join(missing)})"
        run(["apt-get", "-qq", "update"], environment=quiet, downloads=packages)
        run(
            ["apt-get", "-qq", "-y", "install", "--no-install-recommends", *missing],
            environment=quiet,
            downloads=packages,
        )
    if still := missing_packages():
        raise ClusterError(f"still missing after apt-get install: {', '.join(still)}")


def missing_packages() -> list[str]:
    """Return the Debian packages whose programs are not on this machine."""
    packages = DEBIAN_PACKAGES.items()
    return sorted({package for program, package in packages if not shutil.which(program, path=search_path())})


def has_capability(bit: int) -> bool:
    """Return True if this process has the capability of that number (linux/capability.h)."""
    return parse_capabilities(Path("/proc/self/status").read_text()) >> bit & 1 == 1


def parse_capabilities(text: str) -> int:
    """Parse the effective capabilities, as bits, from /proc/<pid>/status."""
    return next(int(line.split()[1], 16) for line in text.splitlines() if line.startswith("CapEff:"))
