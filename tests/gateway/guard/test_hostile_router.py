"""Clients that would fill the common address: only they wait for their bodies, no other client does."""

import asyncio
import json

import pytest

from tests.gateway.hostile import POST, STRANGER, answer_of, crowd, resident
from tests.gateway.replicas.test_malformed import error
from tests.gateway.town import MIB, Town

LARGE = json.dumps({"messages": [{"role": "user", "content": "x" * MIB}], "model": "big"}).encode()
DECLARED = POST + b"Content-Length: %d\r\n\r\n" % (8 * MIB)


def memory(town: Town) -> int:
    """Return the bytes of the processes behind the common address."""
    return resident(town.router.pid, town.router.late_pid)


async def test_unfinished_heads_use_bounded_memory(town: Town) -> None:
    await town.wake(0)
    before = memory(town)
    async with crowd(town.router.config.port) as strangers:
        await strangers.all_join(12, POST + b"A: " + b"a" * 4 * MIB)
        assert memory(town) - before < 12 * MIB
        assert (await town.ask("honest", LARGE))[0] == 200


async def test_unfinished_declared_bodies_do_not_block_other_clients(town: Town) -> None:
    await town.wake(0)
    async with crowd(town.router.config.port) as strangers:
        await strangers.all_join(40, DECLARED)
        assert (await town.ask("honest", LARGE))[0] == 200
        await strangers.all_join(40, DECLARED + b'{"messages": "' + b"x" * 30_000)
        assert (await town.ask("again", LARGE))[0] == 200


@pytest.mark.parametrize("router_settings", [{"budget_bytes": 16 * MIB, "max_body_bytes": 4 * MIB}])
@pytest.mark.parametrize(
    "length",
    [b"Content-Length: %d\r\n\r\n" % (4 * MIB), b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (4 * MIB)],
    ids=["whole", "chunked"],
)
async def test_unfinished_bodies_of_one_client_stay_within_share(town: Town, length: bytes) -> None:
    await town.wake(0)
    before = memory(town)
    async with crowd(town.router.config.port) as strangers:
        await strangers.all_join(12, POST + length + b'{"messages": "' + b"x" * 3 * MIB)
        # Some clients had to retry, and their memory is free again.
        assert await town.bytes_here(STRANGER) <= town.router.config.share_bytes
        assert await town.bytes_here() <= town.router.config.share_bytes
        assert memory(town) - before < 3 * town.router.config.budget_bytes
        assert (await town.ask("honest", LARGE))[0] == 200
        answers = [asyncio.create_task(answer_of(one)) for one in strangers.sockets]
        await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        refused = [answer.result() for answer in answers if answer.done()]
        for answer in answers:
            answer.cancel()
        assert {error(answer) for answer in refused} == {(429, "queue_full")}
    async with asyncio.timeout(30):
        while await town.bytes_here():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_chunked_body_is_counted_and_rejected_above_size_limit(town: Town) -> None:
    await town.wake(0)
    begun = POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (64 * MIB) + b'{"messages": "'
    async with crowd(town.router.config.port) as strangers:
        await strangers.join(begun + b"x" * MIB)
        async with asyncio.timeout(30):
            while await town.bytes_here(STRANGER) < MIB:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        endless = await strangers.join(begun + b"x" * (town.router.config.max_body_bytes + MIB))
        assert error(await answer_of(endless)) == (413, "request_too_large")
        assert await town.bytes_here() < 2 * MIB


@pytest.mark.parametrize("router_settings", [{"budget_bytes": 16 * MIB, "max_body_bytes": 4 * MIB}])
@pytest.mark.parametrize("late", [False, True])
async def test_unread_answers_stay_within_memory_budget(town: Town, late: bool) -> None:
    await town.wake(0)
    town.serves[0].answer_bytes = 12 * MIB
    before = memory(town)
    body = LARGE[:40_000] + b'x"}], "model": "big"}' if late else b'{"model": "big"}'
    request = POST + b"X-Request-Id: s\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    async with crowd(town.router.config.port) as strangers:
        await strangers.all_join(12, request)
        await town.until(0, lambda state: state.arrivals == 12)
        for _ in range(20):
            await asyncio.sleep(0.1)
            assert memory(town) - before < 24 * MIB
        town.serves[0].answer_bytes = 0
        assert (await town.ask("honest", LARGE))[0] == 200
    async with asyncio.timeout(30):
        while await town.bytes_here():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("router_settings", [{"stall_timeout": 1}])
async def test_stalled_body_is_ended_and_held_request_is_not(town: Town) -> None:
    await town.wake(0)
    late = json.dumps({"messages": "x" * MIB, "model": "tiny"}).encode()
    early = json.dumps({"model": "tiny", "messages": "x" * MIB}).encode()
    held = [
        asyncio.create_task(town.ask(f"r{n}", body))
        for n, body in enumerate((late, early, b'{"model": "tiny"}'))
    ]
    await town.until(1, lambda state: state.held == 3)
    async with crowd(town.router.config.port) as strangers:
        begun = POST + b"Content-Length: %d\r\n\r\n" % MIB
        await strangers.join(begun + b'{"model": "big", "messages": "' + b"x" * 40_000)
        await strangers.join(begun + b'{"messages": "' + b"x" * 40_000)
        for one in strangers.sockets:
            await answer_of(one, 30)
    await asyncio.sleep(2)
    await town.wake(1)
    assert [status for status, _ in await asyncio.gather(*held)] == [200] * 3


@pytest.mark.parametrize("router_settings", [{"max_connections": 100}])
async def test_many_connections_of_one_client_do_not_block_other_clients(town: Town) -> None:
    await town.wake(0)
    async with crowd(town.router.config.port) as strangers:
        await strangers.all_join(120, POST)
        for number in range(5):
            async with asyncio.timeout(10):
                assert (await town.ask(f"honest-{number}", {"model": "big"}))[0] == 200


@pytest.mark.parametrize("router_settings", [{"max_connections": 20, "client_share": 1.0}])
@pytest.mark.parametrize("late", [False, True])
async def test_held_requests_of_one_service_do_not_block_other_services(town: Town, late: bool) -> None:
    await town.wake(0)
    body = b'{"user": "%b", "model": "tiny"}' % (b"x" * (40_000 if late else 10))
    request = POST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    async with crowd(town.router.config.port) as strangers:
        await strangers.all_join(15, request)
        await town.until(1, lambda state: state.held == 15)
        refused = await answer_of(await strangers.join(request))
        assert error(refused) == (429, "queue_full")
        assert b"retry-after: 5" in refused.lower()
        await strangers.all_join(10, request)
        async with asyncio.timeout(30):
            assert (await town.ask("honest", {"model": "big"}))[0] == 200
        assert (await town.until(1, lambda state: True)).held == 15
