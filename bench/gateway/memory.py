"""Memory of a group of processes as the kernel charges it to a pod: shared pages count once."""

import re
from collections.abc import Iterable
from pathlib import Path

import psutil

_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ (\S+) (\S+) (\d+)")
"""Offset, device and inode in the first line of a mapping."""


def pod_mib(processes: Iterable[psutil.Process]) -> float:
    """Return the MiB of the processes' anonymous memory, and of the file pages that any of them has mapped.

    The mapping of a file counts with the maximum that one process has of it. PSS would also divide by
    processes outside the pod that run from the same files on this machine.
    """
    anonymous, files = 0, dict[tuple[str, ...], int]()
    for process in processes:
        key: tuple[str, ...] = ()
        rss = 0
        for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
            if found := _MAPPING.match(line):
                key = found.groups() if found[3] != "0" else (str(process.pid),)
            elif line.startswith("Rss:"):
                rss = int(line.split()[1])
            elif line.startswith("Anonymous:"):
                own = int(line.split()[1])
                anonymous += own
                files[key] = max(files.get(key, 0), rss - own)
    return (anonymous + sum(files.values())) / 1024
