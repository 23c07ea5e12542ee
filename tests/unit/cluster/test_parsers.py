"""Parsers of /proc and of the output of programs, with texts of real machines."""

from pathlib import Path

import pytest

from cluster.build import key, parse_go_version
from cluster.control_plane.fake_nodes import parse_taint
from cluster.errors import ClusterError
from cluster.machine.host import parse_mountpoints
from cluster.machine.requirements import parse_capabilities, parse_meminfo
from cluster.node.cgroups import parse_mounts
from cluster.node.kubelet import name_servers, resolv_conf
from cluster.tools.processes import parse_stat

VERSION_1 = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
VERSION_2 = """\
23 27 0:22 / /sys rw,relatime - sysfs sysfs rw
24 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
"""


def test_control_groups_of_version_1_have_a_tree_for_each_controller() -> None:
    version, trees = parse_mounts(VERSION_1)
    assert version == 1
    assert [tree.name for tree in trees] == ["cpu,cpuacct", "cpuset", "memory", "pids", "systemd", "unified"]


def test_control_groups_of_version_2_are_one_tree() -> None:
    assert parse_mounts(VERSION_2) == (2, [Path("/sys/fs/cgroup")])


def test_a_machine_without_control_groups_has_no_tree() -> None:
    assert parse_mounts("23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n") == (2, [])


@pytest.mark.parametrize("name", ["sh", "a) R 1 (b", "with space"])
def test_start_time_is_parsed_for_any_program_name(name: str) -> None:
    numbers = " ".join(str(number) for number in range(1, 45))
    # Field 22 of the line is the 20th after the name; the state is the first of them.
    assert parse_stat(f"4711 ({name}) S {numbers}") == ("S", 19)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go1.26.8", (1, 26, 8)),
        ("go1.27rc1", (1, 27, 0)),
        ("go2.0", (2, 0, 0)),
        ("", (0, 0, 0)),
        ("devel +abc", (0, 0, 0)),
    ],
)
def test_go_version_is_parsed_as_numbers(text: str, expected: tuple[int, int, int]) -> None:
    assert parse_go_version(text) == expected


def test_memory_is_parsed_in_bytes() -> None:
    text = "MemTotal:        2048 kB\nMemAvailable:    1024 kB\n"
    assert parse_meminfo(text) == 2 * 2**20
    assert parse_meminfo(text, "MemAvailable") == 2**20


def test_capabilities_are_parsed_as_bits() -> None:
    bits = parse_capabilities("Name:\tsh\nCapEff:\t000001fffeffffff\n")
    assert bits >> 24 & 1 == 0
    assert bits >> 21 & 1 == 1


def test_mount_point_with_space_is_parsed() -> None:
    assert parse_mountpoints(r"1 2 0:3 / /a\040b rw - tmpfs tmpfs rw") == [Path("/a b")]


def test_loopback_name_servers_are_ignored() -> None:
    text = "nameserver 127.0.0.53\n# nameserver 192.0.2.9\nnameserver 192.0.2.1\nnameserver ::1\nsearch x\n"
    assert name_servers(text) == ["192.0.2.1"]


def test_the_first_file_with_a_usable_name_server_is_taken(tmp_path: Path) -> None:
    absent, local, good = tmp_path / "absent", tmp_path / "local", tmp_path / "good"
    local.write_text("nameserver 127.0.0.53\n")
    good.write_text("nameserver 192.0.2.1\n")
    assert resolv_conf((absent, local, good)) == good
    assert resolv_conf((absent, local)) == local


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b=c:NoSchedule", {"key": "a/b", "value": "c", "effect": "NoSchedule"}),
        ("a:NoExecute", {"key": "a", "effect": "NoExecute"}),
    ],
)
def test_taint_is_parsed_from_kubectl_form(text: str, expected: dict[str, str]) -> None:
    assert parse_taint(text) == expected


@pytest.mark.parametrize("text", ["a=b", "", ":NoSchedule", "a=b:Never"])
def test_invalid_taint_is_rejected_with_expected_form(text: str) -> None:
    with pytest.raises(ClusterError, match="write key=value:NoSchedule"):
        parse_taint(text)


def test_build_key_changes_if_file_or_flag_changes() -> None:
    files = [("go.mod", b"one"), ("main.go", b"two")]
    same = key(files, ["-trimpath"])
    assert key(list(reversed(files)), ["-trimpath"]) == same
    assert key(files, ["-race"]) != same
    assert key([("go.mod", b"onet"), ("main.go", b"wo")], ["-trimpath"]) != same
