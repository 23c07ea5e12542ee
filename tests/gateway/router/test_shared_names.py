"""Names that several models share, with real HAProxies: shares, sleepers, sessions, renamed bodies."""

import asyncio
import hashlib
import io
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router.shares import Share, Way
from tests.gateway.town import MIB, Town

CHAT = "/v1/chat/completions"
LONG = "m" * 96
"""A name as long as one may be."""


def way(town: Town, slot: int, weight: int = 1, model: str = "") -> Way:
    """Return a backend entry for a service of the town."""
    port = town.gateway.config.first_port + slot
    return Way(f"service-{slot}", model or ("big", "tiny")[slot], port, weight)


async def share(town: Town, *ways: Way, **more: Any) -> None:
    """Have the name `chat` lead there."""
    await town.router.set_routes(town.routes, [Share("r", ("chat", "chat-2"), ways, **more)])


async def wake(town: Town, *models: str) -> dict[str, bytes]:
    """Wake the first service, which has these models. Returns the bodies that will arrive there."""
    await town.wake(0)
    await town.gateway.set_gate("s0", Slot(service="service-0", gate=Gate.OPEN, epoch=2, models=models))
    town.serves[0].bodies = {}
    return town.serves[0].bodies


async def ask(town: Town, name: str, **headers: str) -> int:
    """Send one request by that name. Returns the status."""
    body = b'{"model": "chat", "messages": []}'
    sent = {"X-Request-Id": name, "Content-Type": "application/json", **headers}
    async with town.clients.post(town.url + CHAT, data=body, headers=sent) as answer:
        await answer.read()
        return answer.status


async def ask_many(town: Town, number: int, at_once: int = 32, name: str = "r") -> Counter[int]:
    """Send `number` requests. Returns the count of each status."""
    numbers, statuses = iter(range(number)), Counter[int]()

    async def client() -> None:
        for each in numbers:
            statuses[await ask(town, f"{name}-{each}")] += 1

    await asyncio.gather(*(client() for _ in range(at_once)))
    return statuses


def got(town: Town) -> list[int]:
    """Return the number of requests of each fake Serve."""
    return [serve.whole.total() for serve in town.serves]


async def test_ten_thousand_requests_are_shared_by_weight(town: Town) -> None:
    await town.wake(0)
    await town.wake(1)
    await share(town, way(town, 0, 90), way(town, 1, 10))
    number = 10_000
    assert await ask_many(town, number) == {200: number}
    assert abs(got(town)[0] - 9000) <= 0.01 * number
    assert abs(got(town)[1] - 1000) <= 0.01 * 1000, "to 1 % of its own share, too"
    big, tiny = got(town)
    assert await town.router.shares() == {"r": {"service-0/big": big, "service-1/tiny": tiny}}


async def test_change_of_weights_loses_no_request(town: Town) -> None:
    await town.wake(0)
    await town.wake(1)
    weights = [(100, 1), (50, 50), (1, 100), (3, 4)]
    await share(town, way(town, 0, 100), way(town, 1, 1))
    requested = asyncio.create_task(ask_many(town, 2000))
    changes = 0
    while not requested.done():
        first, second = weights[changes % len(weights)]
        await share(town, way(town, 0, first), way(town, 1, second))
        changes += 1
        await asyncio.sleep(0.02)
    assert await requested == {200: 2000}
    assert sum(got(town)) == 2000
    assert changes > len(weights)
    before = got(town)
    await share(town, way(town, 0, 1), way(town, 1, 3))
    assert await ask_many(town, 400, name="after") == {200: 400}
    assert [now - then for now, then in zip(got(town), before, strict=True)] == [100, 300]


async def test_requests_keep_their_shares_if_routes_are_set_again(town: Town) -> None:
    """Else each change of any service would begin with the heaviest backend."""
    await town.wake(0)
    await town.wake(1)
    for number in range(10):
        await share(town, way(town, 0, 9), way(town, 1, 1))
        assert await ask(town, f"r-{number}") == 200
    assert got(town) == [9, 1]


async def test_sleeping_backend_holds_its_share_of_requests(town: Town) -> None:
    await town.wake(0)
    await share(town, way(town, 0), way(town, 1))
    requested = [asyncio.create_task(ask(town, f"r-{number}")) for number in range(10)]
    await town.until(1, lambda state: state.held == 5)
    await town.wake(1)
    assert Counter(await asyncio.gather(*requested)) == {200: 10}
    assert got(town) == [5, 5]


async def test_requests_with_same_session_header_reach_same_backend(town: Town) -> None:
    await town.wake(0)
    await town.wake(1)
    await share(town, way(town, 0), way(town, 1), sticky="x-session-id")
    for session in range(40):
        for turn in range(3):
            assert await ask(town, f"{session}.{turn}", **{"X-Session-Id": f"session {session}"}) == 200
    where = [{name.split(".")[0] for name in serve.whole} for serve in town.serves]
    assert not where[0] & where[1]
    assert min(map(len, where)) > 5
    before = got(town)
    assert await ask_many(town, 100) == {200: 100}
    assert [now - then for now, then in zip(got(town), before, strict=True)] == [50, 50], "without the header"


@pytest.mark.parametrize("size", [10, 40_000], ids=["first", "late"])
async def test_requests_with_keys_of_same_name_reach_same_backend(town: Town, size: int) -> None:
    """Through which HAProxy ever they are chosen, and whichever of its values a key has."""
    await town.wake(0)
    await town.wake(1)
    names = {f"key-{number}": f"team {number // 2}" for number in range(40)}
    holders = tuple((hashlib.sha256(key.encode()).hexdigest(), name) for key, name in names.items())
    await share(town, way(town, 0), way(town, 1), sticky="x-session-id", holders=holders)
    text = {"messages": "x" * size, "model": "chat"}
    where: dict[str, set[int]] = {}
    for at, (key, name) in enumerate([*names.items()] * 2):
        before = got(town)
        brought = {"Authorization": f"Bearer {key}"} if at % 4 < 2 else {"X-Api-Key": key}
        data = io.BytesIO(json.dumps(text).encode())
        async with town.clients.post(town.url + CHAT, data=data, headers=brought) as answer:
            assert answer.status == 200
        where.setdefault(name, set()).add(
            [now - then for now, then in zip(got(town), before, strict=True)].index(1)
        )
    assert all(len(each) == 1 for each in where.values())
    assert min(Counter(each.copy().pop() for each in where.values()).values()) > 2
    before = got(town)
    for number in range(20):
        assert await ask(town, f"other-{number}", Authorization="Bearer other") == 200
        message = {"Authorization": "Bearer key-1", "X-Session-Id": f"{number}"}
        assert await ask(town, f"said-{number}", **message) == 200
    others = [now - then for now, then in zip(got(town), before, strict=True)]
    assert min(others) >= 12, "an unknown key is spread one by one, and a header comes first"


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 50_000):
        yield body[at : at + 50_000]


@pytest.mark.parametrize("target", ["big", LONG], ids=["shorter", "longer"])
@pytest.mark.parametrize("where", ["first", "last"])
@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "chunked"])
async def test_model_name_in_body_is_replaced_by_name_of_backend(
    town: Town, target: str, where: str, chunked: bool
) -> None:
    """Whatever the size: in the first buffer, where the body fills it, and in the large ones."""
    bodies = await wake(town, target)
    await share(town, way(town, 0, model=target))
    for size in (0, 100, 28_000, 28_672, 31_300, 31_400, 32_768, 33_000, MIB):
        content = 'é"\\ model: chat' + "x" * size
        messages: dict[str, Any] = {"messages": [{"role": "user", "content": content}]}
        named = {"model": "chat-2"}
        body = json.dumps(named | messages if where == "first" else messages | named).encode()
        status, _ = await town.ask(str(size), _pieces(body) if chunked else body)
        assert status == 200
        assert bodies.pop(str(size)) == body.replace(b'"chat-2"', json.dumps(target).encode())
    assert await town.bytes_here() == 0


async def test_model_name_is_replaced_in_escaped_json_and_form(town: Town) -> None:
    bodies = await wake(town, "big")
    await share(town, way(town, 0))
    odd = b'\xef\xbb\xbf {"n": 1, "t": null, "mod\\u0065l" :\n "ch\\u0061t", "user": "chat"}'
    assert (await town.ask("escaped", odd))[0] == 200
    assert bodies["escaped"] == odd.replace(b'"ch\\u0061t"', b'"big"')
    form = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nchat\r\n'
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nchat\r\n--x--\r\n'
    )
    headers = {"X-Request-Id": "form", "Content-Type": "multipart/form-data; boundary=x"}
    async with town.clients.post(f"{town.url}/v1/audio/transcriptions", data=form, headers=headers) as answer:
        assert answer.status == 200
    assert bodies["form"] == form.replace(b'"model"\r\n\r\nchat', b'"model"\r\n\r\nbig')


async def test_model_name_is_replaced_in_pipelined_requests(town: Town) -> None:
    """The length header is that of the forwarded body: no byte of one request counts for the next."""
    bodies = await wake(town, LONG)
    await share(town, way(town, 0, model=LONG))
    reader, writer = await asyncio.open_connection("127.0.0.1", town.router.config.port)
    body = b'{"model": "chat"}'
    for name in (b"one", b"two", b"three"):
        head = b"POST %b HTTP/1.1\r\nHost: x\r\nX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % (CHAT.encode(), name, len(body)) + body)
    async with asyncio.timeout(30):
        for _ in range(3):
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")
            length = int(answer.lower().partition(b"content-length:")[2].split()[0])
            await reader.readexactly(length)
    writer.close()
    assert set(bodies.values()) == {b'{"model": "%b"}' % LONG.encode()}
    assert len(bodies) == 3


async def test_request_with_own_name_of_model_is_unchanged(town: Town) -> None:
    bodies = await wake(town, "big")
    await share(town, way(town, 0))
    body = b'{"model": "big", "user": "chat"}'
    assert (await town.ask("own", body))[0] == 200
    assert bodies["own"] == body
    # A model's own name always leads to the model.
    ways = (way(town, 0),)
    await town.router.set_routes(town.routes, [Share("r", ("tiny",), ways)])
    await town.wake(1)
    assert (await town.ask("taken", {"model": "tiny"}))[0] == 200
    assert got(town)[1] == 1
    await town.router.set_routes(town.routes)
    assert (await town.ask("gone", {"model": "chat"}))[0] == 404


async def test_routes_are_set_and_removed_if_one_command_is_too_short(town: Town) -> None:
    await town.wake(0)
    many = [Share(f"r{number}", (f"{number}-{LONG[:90]}",), (way(town, 0),)) for number in range(400)]
    await town.router.set_routes(town.routes, many)
    for number in (0, 200, 399):
        assert (await town.ask(str(number), {"model": f"{number}-{LONG[:90]}"}))[0] == 200
    await town.router.set_routes(town.routes, many[:1])
    assert (await town.ask("gone", {"model": f"399-{LONG[:90]}"}))[0] == 404


async def test_shared_name_is_listed_and_returns_503_without_backend(town: Town) -> None:
    await share(town, way(town, 0))
    _, answer = await town.get("/v1/models")
    listed = [model["id"] for model in answer["data"]]
    assert listed == ["big", "chat", "chat-2", "org/small", "tiny", "tiny:7b"]
    assert (await town.get("/v1/models/chat"))[1]["id"] == "chat"
    await share(town)
    status, answer = await town.ask("nowhere", {"model": "chat"})
    assert (status, answer["error"]["code"]) == (503, "no_available_backend")
    status, answer = await town.ask("unknown", {"model": "chat-3"})
    assert "chat-2" in answer["error"]["message"]


async def test_request_to_failed_backend_returns_503_with_reason(town: Town) -> None:
    await town.gate(0, Gate.FAILED, reason="no GPU fits")
    await share(town, way(town, 0))
    status, answer = await town.ask("failed", {"model": "chat"})
    assert (status, answer["error"]["message"]) == (503, "no GPU fits")
