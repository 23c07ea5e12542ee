"""Status report: servers with version and memory, pods, control planes, and free resources of the machine."""

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cluster import build, paths, pins
from cluster.control_plane.plane import ControlPlane
from cluster.errors import ClusterError
from cluster.full import ClusterControlPlane
from cluster.machine import requirements
from cluster.node import cgroups
from cluster.tools import ports
from cluster.tools.processes import Processes

_VERSIONS = {"etcd": pins.ETCD, "containerd": pins.CONTAINERD, "kwok": pins.KWOK}
"""Versions of the servers that are not part of Kubernetes."""


def status() -> str:
    """Return the whole report as text."""
    return "\n".join([*_full_cluster(), *_control_planes(), *_rest()])


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table with left-aligned columns."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def size(count: int) -> str:
    """Format a number of bytes in MiB or GiB."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def pod_rows(pods: dict[str, Any], memory: dict[str, int]) -> list[list[str]]:
    """Return rows for the pods of a PodList; `memory` is each pod's use in bytes, by uid."""
    rows = []
    for pod in pods["items"]:
        meta, state = pod["metadata"], pod.get("status", {})
        containers = state.get("containerStatuses", [])
        waiting = [
            c["state"]["waiting"].get("reason", "") for c in containers if "waiting" in c.get("state", {})
        ]
        ready = f"{sum(bool(c.get('ready')) for c in containers)}/{len(pod['spec']['containers'])}"
        restarts = sum(int(c.get("restartCount", 0)) for c in containers)
        used = memory.get(meta["uid"])
        rows.append(
            [
                f"{meta['namespace']}/{meta['name']}",
                next(iter(waiting), "") or state.get("phase", "Unknown"),
                ready,
                str(restarts),
                "" if used is None else size(used),
            ]
        )
    return rows


def _full_cluster() -> list[str]:
    plane = ClusterControlPlane()
    names = plane.processes.recorded()
    if not names:
        return ["cluster: not running (`python -m cluster up` starts it)"]
    lines = [f"cluster: {paths.KUBECONFIG}", *_servers(plane.processes)]
    try:
        pods = json.loads(plane.kubectl("get", "pods", "--all-namespaces", "-o", "json", timeout=15))
    except ClusterError as error:
        return [*lines, f"pods: {error}"]
    memory = {pod["metadata"]["uid"]: _pod_memory(pod["metadata"]["uid"]) for pod in pods["items"]}
    known = {uid: used for uid, used in memory.items() if used is not None}
    return [*lines, "", *table(("POD", "STATE", "READY", "RESTARTS", "MEMORY"), pod_rows(pods, known))]


def _control_planes() -> list[str]:
    lines: list[str] = []
    for directory in ports.holders(paths.PORTS):
        if directory != paths.CLUSTER and directory.exists():
            plane = ControlPlane(directory)
            lines += ["", f"control plane: {plane.kubeconfig}", *_servers(plane.processes)]
    return lines


def _servers(processes: Processes) -> list[str]:
    rows = []
    for name in processes.recorded():
        record = processes.get(name)
        state = [str(record.pid), size(record.resident_bytes)] if record else ["-", "-"]
        rows.append([name, _VERSIONS.get(name, pins.KUBERNETES), "runs" if record else "ENDED", *state])
    return table(("SERVER", "VERSION", "STATE", "PROCESS", "MEMORY"), rows)


def _rest() -> list[str]:
    memory = Path("/proc/meminfo").read_text()
    free = size(shutil.disk_usage(paths.DAYBREAK).free)
    available = size(requirements.parse_meminfo(memory, "MemAvailable"))
    programs = sum(
        file.stat().st_size for file in paths.BIN.glob("*") if file.is_file() and not file.is_symlink()
    )
    built = [binary.name for binary in build.SETS["all"] if (paths.BIN / binary.name).exists()]
    machine_line = f"machine: {available} of memory and {free} of disk free"
    return ["", f"{machine_line}; programs: {len(built)} built, {size(programs)}"]


def _pod_memory(uid: str) -> int | None:
    """Return the memory of a pod's cgroup in bytes, or None if the pod has no cgroup."""
    return cgroups.memory_bytes(f"pod{uid}")
