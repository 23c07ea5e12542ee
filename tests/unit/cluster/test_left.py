"""Leftovers that `make down` must not leave, on a machine that is a folder."""

import json
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import paths
from cluster.machine import left
from cluster.node import cgroups, network

REPOSITORY = Path("/somewhere/daybreak")
STATE = REPOSITORY / ".daybreak"
SOCKETS = left.run_directory(REPOSITORY)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a machine without anything of Daybreak."""
    route(tmp_path, "eth0", "192.0.2.0")
    mounts(tmp_path, "proc /proc", "cgroup2 /sys/fs/cgroup", "ext4 /somewhere/daybreak-other")
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    process(tmp_path, 11, exe="/usr/bin/sh", words="sh")
    return tmp_path


def route(root: Path, device: str, address: str) -> None:
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    number = struct.unpack("=I", socket.inet_aton(address))[0]
    (root / "proc/net/route").write_text(f"Iface\tDestination\tGateway\n{device}\t{number:08X}\t0\n")


def mounts(root: Path, *each: str) -> None:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    lines = [f"1 2 0:3 / {point} rw - {kind} none rw" for kind, point in (one.split() for one in each)]
    (root / "proc/self/mountinfo").write_text("\n".join(lines))


def process(root: Path, pid: int, *, exe: str, words: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(words.replace(" ", "\0").encode())
    (folder / "exe").symlink_to(exe)
    (folder / "cwd").symlink_to(REPOSITORY)


def look(root: Path) -> list[str]:
    return list(left.left(REPOSITORY, root))


def test_clean_machine_has_no_leftovers(machine: Path) -> None:
    assert look(machine) == []


def test_leftover_processes_are_found_by_program_or_command(machine: Path) -> None:
    process(machine, 21, exe=f"{STATE}/bin/etcd (deleted)", words="etcd --name=daybreak")
    process(machine, 22, exe="/usr/bin/python3", words=".daybreak/venv/bin/python -m cluster")
    (machine / "proc/23").mkdir()
    assert look(machine) == [
        "process 21 etcd --name=daybreak",
        "process 22 .daybreak/venv/bin/python -m cluster",
    ]


def test_leftover_control_group_is_reported_with_its_processes(machine: Path) -> None:
    pod = machine / "sys/fs/cgroup/daybreak/kubepods/pod1"
    pod.mkdir(parents=True)
    (pod / "cgroup.procs").write_text("31\n32\n")
    assert look(machine) == [f"control group {machine}/sys/fs/cgroup/daybreak, processes in it: 31 32"]


def test_leftover_mounts_are_reported(machine: Path) -> None:
    mounts(machine, f"overlay {STATE}/cluster/x", f"tmpfs {SOCKETS}/netns", "ext4 /")
    assert look(machine) == [f"mount {STATE}/cluster/x", f"mount {SOCKETS}/netns"]


def test_leftover_network_device_and_route_are_reported(machine: Path) -> None:
    (machine / "sys/class/net/kube0").mkdir()
    route(machine, "veth1", "198.19.255.254")
    assert look(machine) == ["network device kube0", "route to 198.19.255.254 by veth1"]


def test_route_of_other_network_in_same_range_is_ignored(machine: Path) -> None:
    route(machine, "tun0", "198.18.0.0")
    assert look(machine) == []


def test_leftover_folders_and_links_are_reported(machine: Path, tmp_path: Path) -> None:
    (machine / SOCKETS.relative_to("/")).mkdir(parents=True)
    logs = machine / "var/log/containers"
    logs.mkdir(parents=True)
    (logs / "ours.log").symlink_to(STATE / "cluster/pod-logs/x/0.log")
    (logs / "other.log").symlink_to("/var/log/pods/x/0.log")
    assert look(machine) == [f"folder {machine}{SOCKETS}", f"link {logs}/ours.log"]
    repository = tmp_path / "checkout"
    (repository / ".daybreak").mkdir(parents=True)
    assert f"folder {repository}/.daybreak" in left.left(repository, machine)


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("table ip filter\ntable ip6 daybreak\n", []),
        (
            "table ip daybreak\ntable ip kube-proxy\ntable ip6 kube-proxy\n",
            ["ip daybreak", "ip kube-proxy", "ip6 kube-proxy"],
        ),
    ],
)
def test_leftover_packet_filter_tables_are_reported(
    listed: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nft = tmp_path / "nft"
    nft.write_text(f"#!/bin/sh\nprintf {json.dumps(listed)}\n")
    nft.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert list(left.tables()) == [f"packet filter table {table}" for table in found]


def test_constants_equal_those_of_cluster() -> None:
    assert (left.REPOSITORY, left.BRIDGE) == (paths.REPOSITORY, network.BRIDGE)
    assert (left.ADDRESSES, left.CONTROL_GROUP) == (network.ALL_RANGES, cgroups.ROOT)
    assert left.run_directory(REPOSITORY) == paths.run_directory(REPOSITORY)
    assert {table.split()[1] for table in left.TABLES} == {network._TABLE, network._PROXY_TABLE}


def test_program_runs_without_libraries_and_fails_if_leftovers_exist() -> None:
    """The tests run with the Python in .daybreak, so this checkout always has leftovers."""
    program = [sys.executable, "-I", "-S", str(Path(left.__file__))]
    done = subprocess.run(program, capture_output=True, text=True, check=False)  # noqa: S603
    if paths.DAYBREAK.exists():
        assert done.returncode == 1
        assert f"left: folder {paths.DAYBREAK}" in done.stderr.splitlines()
    else:
        assert (done.returncode, done.stderr) == (0, "")
