"""Ports of the loopback for tests."""

import random
import socket

TRIES = 100


def free_ports(count: int, within: range = range(20000, 32000)) -> int:
    """The first of so many ports in a row that nobody has just now, below those that clients get.

    Somewhere by chance: other tests look for ports as well, and it takes seconds until these are listened at.
    """
    for _ in range(TRIES):
        first = random.randint(within.start, within.stop - count)  # noqa: S311
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise RuntimeError("no free ports")
