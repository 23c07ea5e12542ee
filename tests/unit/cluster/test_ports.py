"""Ports: no process gets a port that another process reserves or uses."""

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster.tools import ports


def _holder(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def test_holder_gets_same_ports_again(tmp_path: Path) -> None:
    holder = _holder(tmp_path, "one")
    first = ports.reserve(tmp_path / "ports", holder, 3)
    assert ports.reserve(tmp_path / "ports", holder, 3) == first
    assert len(set(first)) == 3
    more = ports.reserve(tmp_path / "ports", holder, 4)
    assert set(first) < set(more)


def test_concurrent_holders_get_disjoint_ports(tmp_path: Path) -> None:
    holders = [_holder(tmp_path, f"holder-{number}") for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda holder: ports.reserve(tmp_path / "ports", holder, 5), holders))
    assert len({port for block in found for port in block}) == 60
    assert ports.holders(tmp_path / "ports") == sorted(holders)


def test_released_ports_and_those_of_deleted_holders_are_free_again(tmp_path: Path) -> None:
    one, two, three = (_holder(tmp_path, name) for name in ("one", "two", "three"))
    first = ports.reserve(tmp_path / "ports", one, 2)
    second = ports.reserve(tmp_path / "ports", two, 2)
    ports.release(tmp_path / "ports", one)
    two.rmdir()
    assert ports.reserve(tmp_path / "ports", three, 4) == first + second


def test_port_in_use_is_skipped(tmp_path: Path) -> None:
    holder = _holder(tmp_path, "one")
    (taken,) = ports.reserve(tmp_path / "other", holder, 1)
    with socket.socket() as server:
        server.bind(("127.0.0.1", taken))
        server.listen()
        assert taken not in ports.reserve(tmp_path / "ports", holder, 10)


def test_ports_are_below_the_ephemeral_range() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert lowest > ports.LAST


def test_checkouts_start_at_different_ports(tmp_path: Path) -> None:
    found = set()
    for number in range(8):
        holder = tmp_path / str(number)
        holder.mkdir()
        found.update(ports.reserve(holder / "ports", holder, 1))
    # Each holder has its own file, and none listens. With one common start all would get the same port.
    assert len(found) > 1


def test_ports_stay_reserved_for_holder_whose_folder_was_missing(tmp_path: Path) -> None:
    """Otherwise two holders that start together get the same ports, and the second finds them in use."""
    first = ports.reserve(tmp_path / "ports", tmp_path / "one", 3)
    assert not set(first) & set(ports.reserve(tmp_path / "ports", tmp_path / "two", 3))
