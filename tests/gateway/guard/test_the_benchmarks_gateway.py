"""The gateway of `make gpu-check` is what a client of an LLMService gets."""

import asyncio
import contextlib
from pathlib import Path

import aiohttp

from bench.gpu.gateway import run, servers, with_proofs
from daybreak.gateway.desired.gates import DesiredGate
from daybreak.gateway.fields import fields
from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.conftest import BODY
from tests.gateway.ports import free_ports
from tests.gateway.replica_front import ReplicaDoor

CHAT = "/v1/chat/completions"
SLOTS = 16


async def test_benchmark_gateway_leaves_body_check_to_replica(tmp_path: Path) -> None:
    async with ReplicaDoor() as replica, aiohttp.ClientSession() as clients:
        port = free_ports(SLOTS)
        gateway = asyncio.create_task(run(port, "big", 1, [replica.address.port], 8, tmp_path))
        try:
            async with asyncio.timeout(120):
                while CHAT not in "".join(replica.paths):
                    assert not gateway.done()
                    await asyncio.sleep(0.1)
                    with contextlib.suppress(aiohttp.ClientError):
                        url = f"http://127.0.0.1:{port}{CHAT}"
                        async with clients.post(url, data=BODY, headers={"X-Request-Id": "one"}) as answer:
                            await answer.read()
                # The first one comes to Lua, and is looked at there.
                async with clients.post(url, data=BODY, headers={"X-Request-Id": "two"}) as answer:
                    assert answer.status == 200
        finally:
            gateway.cancel()
            await asyncio.gather(gateway, return_exceptions=True)
    assert fields.guard_path() + CHAT in replica.paths


async def test_gate_of_serve_proxy_is_returned_unchanged_without_delay() -> None:
    gate = DesiredGate(Slot(service="check", gate=Gate.OPEN, epoch=1, models=("big",)), servers(1, [], 8))
    # The probed component has 20 s to answer.
    assert await asyncio.wait_for(with_proofs(gate), 10) == gate
