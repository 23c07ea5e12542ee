"""The key is checked with the head: a client without a valid key uses no quota, and waits for nothing."""

import asyncio

import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench
from tests.gateway.guard.test_keys import KEYS
from tests.gateway.replicas.test_malformed import error
from tests.gateway.router.test_router_keys import keyed
from tests.gateway.town import MIB, Town

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"


async def announced(port: int, length: int, more: bytes = b"") -> tuple[int, str]:
    """Send a head that announces a body, and nothing of the body. Returns how it is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(HEAD + b"Content-Length: %d\r\n%b\r\n" % (length, more))
        async with asyncio.timeout(30):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-len")
            )
            return error(head + await reader.readexactly(length))
    finally:
        writer.close()


@pytest.mark.parametrize("gate", [Gate.OPEN, Gate.CLOSED])
@pytest.mark.parametrize("length", [100, 5 * MIB])
async def test_request_without_valid_key_is_rejected_before_body_arrives(
    bench: Bench, gate: Gate, length: int
) -> None:
    await bench.wake(keys=KEYS)
    await bench.gate(gate, keys=KEYS, waits=True)
    port = bench.gateway.config.first_port
    assert await announced(port, length) == (401, "invalid_api_key")
    assert await announced(port, length, b"Authorization: Bearer sk-four\r\n") == (401, "invalid_api_key")
    assert (await bench.state()).arrivals == 0


async def test_small_request_with_valid_key_bypasses_lua(bench: Bench) -> None:
    await bench.wake(keys=KEYS)
    for number, key in enumerate(("sk-one", "sk-two", "sk-one")):
        assert (await bench.ask(f"r{number}", Authorization=f"Bearer {key}"))[0] == 200
    state = await bench.state()
    assert (state.arrivals, state.past_lua, state.ends) == (3, 3, {"passed": 3})


async def test_heads_without_valid_key_use_no_body_budget(town: Town) -> None:
    """Each head announces a body of 10 MiB: 26 of them are all the room that there is."""
    await keyed(town, tuple(KEYS[:1]), tuple(KEYS[1:]))
    port = town.router.config.port
    for _ in range(30):
        assert await announced(port, 10 * MIB) == (401, "invalid_api_key")
        assert await announced(port, 10 * MIB, b"x-api-key: sk-four\r\n") == (401, "invalid_api_key")
    assert await town.bytes_here() == 0


async def test_key_is_accepted_only_by_its_own_service(town: Town) -> None:
    await keyed(town, tuple(KEYS[:1]), tuple(KEYS[1:]))
    await town.gate(1, Gate.FAILED, keys=KEYS[1:])
    for key, status in (("sk-one", 401), ("sk-two", 503)):
        body = b'{"model": "tiny"}'
        headers = {"Authorization": f"Bearer {key}"}
        async with town.clients.post(town.url + "/v1/completions", data=body, headers=headers) as answer:
            assert answer.status == status
    # An open service of the namespace does not open the other service.
    await keyed(town, tuple(KEYS[:1]), ())
    async with town.clients.post(town.url + "/v1/completions", data=b'{"model": "big"}') as answer:
        assert answer.status == 401
