"""The kernel's list of connections, as far as it is read."""

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from daybreak.gateway.hold import departures
from daybreak.gateway.hold.departures import TCP, TCP6, as_the_kernel_writes, connections
from daybreak.gateway.hold.diag import ESTABLISHED, SockDiag
from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench


@pytest.mark.parametrize(
    ("family", "bound", "address", "file"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1", TCP),
        (socket.AF_INET6, "::1", "::1", TCP6),
        (socket.AF_INET6, "::", "127.0.0.1", TCP6),
    ],
)
def test_connection_is_found_by_address_in_kernel_table(
    family: socket.AddressFamily, bound: str, address: str, file: Path
) -> None:
    diag = SockDiag()
    with socket.socket(family) as server:
        try:
            if family == socket.AF_INET6:
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            server.bind((bound, 0))
        except OSError as error:
            pytest.skip(f"no IPv6 on this machine: {error}")
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection((address, port)) as client:
            key = f"{as_the_kernel_writes(address, file)}:{client.getsockname()[1]:04X}", f"{port:04X}"
            accepted, _ = server.accept()
            with accepted:
                far, here = client.getsockname()[:2], client.getpeername()[:2]
                assert connections(file)[key] == "01"
                assert diag.state(far, here) == ESTABLISHED
                client.close()
                assert connections(file)[key] != "01"
                assert diag.state(far, here) not in (0, ESTABLISHED)
            # Reset at once: nothing is left of it, or what listens there.
            with socket.create_connection((address, port)) as client:
                far = client.getsockname()[:2]
                accepted, _ = server.accept()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
                with accepted:
                    assert diag.state(far, here) != ESTABLISHED
    diag.close()


@pytest.mark.parametrize("few", [0, 256])
async def test_departed_clients_are_detected_with_few_and_many_connections(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(departures, "_FEW", few)
    await bench.gate(Gate.CLOSED)
    asking = [asyncio.create_task(bench.ask(f"r{number}")) for number in range(10)]
    await bench.until(lambda state: state.held == 10)
    for task in asking[:4]:
        task.cancel()
    left = await bench.until(lambda state: state.held == 6)
    assert left.ends == {"gone": 4}
    await bench.wake()
    assert {answer[0] for answer in await asyncio.gather(*asking[4:])} == {200}
