"""Uploads that name their model last: the common address takes what their service takes."""

import io
import json
from typing import Any

import aiohttp
import pytest

from daybreak.gateway.agent.settings import USUAL_MEMORY, large_body, large_bytes
from daybreak.gateway.hold.table import Gate
from tests.gateway.guard.test_hostile_router import memory
from tests.gateway.town import MIB, Town, insist

USUAL: dict[str, Any] = {
    "max_body_bytes": large_body(USUAL_MEMORY),
    "budget_bytes": large_bytes(USUAL_MEMORY),
}
RECORDING = 17 * 10**6
IMAGE = 12 * 10**6
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


def chat(size: int) -> bytes:
    """Return a chat with an image of that size, with the model as its last field."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * size}}
    return json.dumps({"messages": [{"role": "user", "content": [image]}], "model": "big"}).encode()


@pytest.mark.parametrize("router_settings", [USUAL])
async def test_large_upload_that_names_its_model_last_reaches_the_service(town: Town) -> None:
    await town.gateway.set_servers("s0", [town.serves[0].address])
    await town.gate(0, Gate.OPEN, max_body_bytes=64 * MIB)
    await town.until(0, lambda state: state.servers_up == 1)
    before = memory(town)
    for name in ("one", "two", "three"):
        form = aiohttp.FormData()
        form.add_field("file", io.BytesIO(bytes(RECORDING)), filename="talk.wav", content_type="audio/wav")
        form.add_field("model", "big")
        url, headers = f"{town.url}/v1/audio/transcriptions", {"X-Request-Id": name}
        async with town.clients.post(url, data=form, headers=headers) as answer:
            assert (answer.status, (await answer.json())["bytes"] > RECORDING) == (200, True)
        status, found = await town.ask(f"chat-{name}", chat(IMAGE))
        assert (status, found["bytes"]) == (200, len(chat(IMAGE)))
    assert await town.bytes_here() == 0
    assert memory(town) - before < large_bytes(USUAL_MEMORY)


@pytest.mark.parametrize("router_settings", [USUAL])
async def test_upload_above_the_services_own_limit_is_rejected_by_it(town: Town) -> None:
    await town.gateway.set_servers("s0", [town.serves[0].address])
    await town.gate(0, Gate.OPEN, max_body_bytes=11 * MIB)
    await town.until(0, lambda state: state.servers_up == 1)
    body = chat(IMAGE)
    answer = insist(town.router.config.port, HEAD % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"11534336 bytes, the limit of this service" in answer
    assert not town.serves[0].observed
