"""Leftovers of this checkout's cluster on the machine; after `make down` there must be none.

    python3 cluster/machine/left.py             one line per leftover; non-zero exit status if there is any

The script runs with any Python: `make down` has removed the one with the libraries. It therefore imports
nothing from the package and repeats the names that the cluster uses. A unit test keeps both equal.
"""

import contextlib
import hashlib
import ipaddress
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BRIDGE = "kube0"
ADDRESSES = "198.18.0.0/15"
CONTROL_GROUP = "/daybreak"
TABLES = ("ip daybreak", "ip kube-proxy", "ip6 kube-proxy")
LOG_LINKS = "/var/log/containers"


def left(repository: Path = REPOSITORY, root: Path = Path("/")) -> Iterator[str]:
    """Yield one line per leftover; `root` is the folder of /proc, /sys, /run and /var."""
    state = repository / ".daybreak"
    sockets = run_directory(repository)
    yield from (f"folder {path}" for path in (state, root / sockets.relative_to("/")) if path.exists())
    yield from _processes(root, state)
    yield from _control_groups(root)
    yield from _mounts(root, (state, sockets))
    yield from _network(root)
    for link in sorted((root / LOG_LINKS[1:]).glob("*.log")):
        if link.is_symlink() and link.readlink().is_relative_to(state):
            yield f"link {link}"


def run_directory(repository: Path) -> Path:
    """Return the folder for the sockets of that checkout's cluster."""
    return Path("/run") / f"daybreak-{hashlib.sha256(str(repository).encode()).hexdigest()[:8]}"


def tables() -> Iterator[str]:
    """Yield the cluster's packet filter tables, if `nft` is installed to list them."""
    nft = shutil.which("nft", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if nft:
        # Only root may list tables; other users cannot have created any.
        listed = subprocess.run([nft, "list", "tables"], capture_output=True, text=True, check=False)  # noqa: S603
        yield from (f"packet filter {line}" for line in listed.stdout.splitlines() if line[6:] in TABLES)


def _processes(root: Path, state: Path) -> Iterator[str]:
    """Yield the processes of the checkout's programs, including programs with a deleted file."""
    for process in sorted((root / "proc").glob("[0-9]*")):
        with contextlib.suppress(OSError):  # the process has ended, or is a kernel thread
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            programs = ((process / "exe").readlink(), (process / "cwd").readlink() / words[0])
            if any(program.is_relative_to(state) for program in programs):
                yield f"process {process.name} {' '.join(words)[:80]}"


def _control_groups(root: Path) -> Iterator[str]:
    for line in _mount_lines(root):
        if line.partition(" - ")[2].startswith("cgroup"):
            group = root / _mount_point(line).relative_to("/") / CONTROL_GROUP[1:]
            if group.exists():
                inside = {pid for file in group.rglob("cgroup.procs") for pid in file.read_text().split()}
                yield f"control group {group}, processes in it: {' '.join(sorted(inside)) or 'none'}"


def _mounts(root: Path, folders: tuple[Path, ...]) -> Iterator[str]:
    for line in _mount_lines(root):
        point = _mount_point(line)
        if any(point.is_relative_to(folder) for folder in folders):
            yield f"mount {point}"


def _mount_lines(root: Path) -> list[str]:
    return (root / "proc/self/mountinfo").read_text().splitlines()


def _mount_point(line: str) -> Path:
    return Path(line.split()[4].encode().decode("unicode_escape"))


def _network(root: Path) -> Iterator[str]:
    if (root / "sys/class/net" / BRIDGE).exists():
        yield f"network device {BRIDGE}"
    for line in (root / "proc/net/route").read_text().splitlines()[1:]:
        device, destination = line.split()[:2]
        # The kernel writes an address as a number in the machine's own byte order.
        address = ipaddress.ip_address(int(destination, 16).to_bytes(4, sys.byteorder))
        # Each pod has its own device and route. Other networks may also use that range.
        if device.startswith("veth") and address in ipaddress.ip_network(ADDRESSES):
            yield f"route to {address} by {device}"


if __name__ == "__main__":
    found = [*left(), *tables()]
    for each in found:
        print(f"left: {each}", file=sys.stderr)
    sys.exit(1 if found else 0)
