"""Memory of several processes together, as the kernel charges it to a pod: what they share counts once."""

import re
from collections.abc import Iterable
from pathlib import Path

import psutil

_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ (\S+) (\S+) (\d+)")
"""Of a mapping's first line: offset, device and inode."""


def pod_mib(processes: Iterable[psutil.Process]) -> float:
    """MiB of their anonymous memory, and of the pages of files that any of them has.

    A file's mapping counts with the most that one process has of it. (PSS would also share with processes
    that are none of the pod's, which run from the same files on this machine.)
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
