"""Ports for tests: no two processes share one, and none that is in use is given."""

import itertools
import socket

import cluster.tools.ports
from tests.gateway.ports import FIRST, LAST, Ports


def test_port_ranges_overlap_neither_each_other_nor_control_planes() -> None:
    parts = [Ports(number, 3).range for number in range(3)]
    assert not any(set(one) & set(other) for one, other in itertools.combinations(parts, 2))
    assert min(map(min, parts)) >= FIRST
    assert max(map(max, parts)) <= LAST < cluster.tools.ports.FIRST


def test_port_is_reused_only_after_all_others() -> None:
    ports = Ports(0, 90)
    found = [ports.take(1) for _ in range(len(ports.range))]
    assert len(set(found)) > len(ports.range) * 0.9, "some may be in use"
    assert set(found) <= set(ports.range)


def test_port_in_use_is_skipped() -> None:
    ports = Ports(0, 90)
    with socket.socket() as server:
        taken = ports.take(1)
        server.bind(("127.0.0.1", taken))
        found = [range(first, first + 5) for first in (ports.take(5) for _ in ports.range)]
    assert len({first for first, *_ in found}) < len(found), "it has come round"
    assert all(taken not in block for block in found)
