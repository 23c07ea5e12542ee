"""No log has a key, the digest of one, or a word of a prompt, whether all goes well or not."""

import asyncio
import json
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest
import structlog

from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench
from tests.gateway.guard.test_keys import api_key
from tests.gateway.router.test_router_keys import keyed
from tests.gateway.town import Town

KEYS = [replace(api_key(f"sk-{name}"), name=f"of-{name}") for name in ("one", "two")]
"""Keys whose names are logged, and are no secret."""
PROMPT = "a-word-of-a-prompt"
SECRETS = ["sk-one", "sk-two", "sk-wrong", PROMPT, *(key.digest for key in KEYS)]


def nothing_told(words: str) -> None:
    """Check that the text contains no secret, in small or capital letters."""
    assert not [secret for secret in SECRETS if secret.lower() in words.lower()]


@pytest.fixture(autouse=True)
def haproxys_words(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return the HAProxies' own messages since their start: the log has them at the level debug."""
    caplog.set_level(logging.DEBUG, "daybreak.gateway")
    return lambda: [str(vars(record)["said"]) for record in caplog.records if "said" in vars(record)]


def body(**more: object) -> bytes:
    """Return a request with a prompt."""
    return json.dumps({"model": "big", "messages": [{"role": "user", "content": PROMPT}], **more}).encode()


async def test_gateway_logs_contain_no_secret(
    haproxys_words: Callable[[], list[str]], bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    with structlog.testing.capture_logs() as logs:
        await bench.gate(Gate.CLOSED, keys=KEYS)
        held = asyncio.create_task(bench.ask("held", body(), Authorization="Bearer sk-one"))
        leaves = asyncio.create_task(bench.ask("leaves", body(), Authorization="Bearer sk-two"))
        await bench.until(lambda state: state.held == 2)
        leaves.cancel()
        await bench.until(lambda state: state.held == 1)
        await bench.wake(keys=KEYS)
        assert (await held)[0] == 200
        answers = [
            await bench.ask("wrong", body(), Authorization="Bearer sk-wrong"),
            await bench.ask("refused", body(priority=1), Authorization="Bearer sk-two"),
            await bench.ask("unknown", body(model=PROMPT), Authorization="Bearer sk-two"),
        ]
        assert [status for status, _, _ in answers] == [401, 400, 404]
        reported = json.dumps(await bench.gateway._api.json("daybreak show"))
        # A command that HAProxy does not take, and one during which it ends.
        with pytest.raises(RuntimeApiError) as refused:
            await bench.gateway._api.expect(f"daybreak set s99999 keys=a:{KEYS[0].digest}", "ok")
        os.kill(bench.gateway.pid, signal.SIGSTOP)
        cut = asyncio.create_task(bench.gate(Gate.CLOSED, keys=KEYS))
        await asyncio.sleep(0.2)
        os.kill(bench.gateway.pid, signal.SIGKILL)
        await asyncio.wait([cut])
        # The periodic check for clients that have left detects no more of them.
        async with asyncio.timeout(60):
            while not logs:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    nothing_told(json.dumps(logs, default=str) + reported + str(refused.value) + str(cut.exception()))
    assert haproxys_words(), "it says at least that a server is up"
    nothing_told(" ".join(haproxys_words()))
    out, err = capfd.readouterr()
    nothing_told(out + err)


async def test_router_logs_contain_no_secret(
    haproxys_words: Callable[[], list[str]], town: Town, capfd: pytest.CaptureFixture[str]
) -> None:
    with structlog.testing.capture_logs() as logs:
        await keyed(town, tuple(KEYS[:1]), tuple(KEYS[1:]))
        await town.gate(0, Gate.FAILED, keys=KEYS[:1])
        for key in ("sk-one", "sk-wrong"):
            headers = {"Authorization": f"Bearer {key}"}
            url = f"{town.url}/v1/chat/completions"
            async with town.clients.post(url, data=body(), headers=headers) as answer:
                assert answer.status == (503 if key == "sk-one" else 401)
        os.kill(town.router.pid, signal.SIGSTOP)
        cut = asyncio.create_task(keyed(town, tuple(KEYS[:1]), tuple(KEYS[1:])))
        await asyncio.sleep(0.2)
        os.kill(town.router.pid, signal.SIGKILL)
        await asyncio.wait([cut])
    assert isinstance(cut.exception(), RuntimeApiError)
    nothing_told(json.dumps(logs, default=str) + str(cut.exception()) + " ".join(haproxys_words()))
    out, err = capfd.readouterr()
    nothing_told(out + err)
