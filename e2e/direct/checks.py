"""The checks: each takes the target, and raises AssertionError with what it saw."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp

from direct.target import Target

Check = Callable[[Target], Coroutine[Any, Any, str]]
_COMPLETIONS = "/v1/completions"


async def answers(target: Target) -> str:
    """Errors have OpenAI's shape, what is not listed is not there, and X-Request-Id comes back."""
    async with target.session() as session:
        await _health(target, session, 200)
        for path in ("/docs", "/version", "/scale_elastic_ep", "/ping", "/v1/load_lora_adapter"):
            async with session.post(target.replica + path, json={}) as answer:
                _expect(answer.status == 404 and _is_error(await answer.json()), path, answer.status)
        unknown = target.completion(1) | {"model": "nobody"}
        async with session.post(target.replica + _COMPLETIONS, json=unknown) as answer:
            _expect(answer.status == 404 and _is_error(await answer.json()), "unknown model", answer.status)
        async with session.post(target.replica + "/v1/embeddings", json=unknown) as answer:
            _expect(_is_error(await answer.json()), "a path that the model does not serve", answer.status)
        headers = {"X-Request-Id": "check-1"}
        body = target.completion(4)
        async with session.post(target.replica + _COMPLETIONS, json=body, headers=headers) as answer:
            _expect(answer.status == 200, "completion", await answer.text())
            _expect(answer.headers["X-Request-Id"] == "check-1", "X-Request-Id", dict(answer.headers))
        async with session.get(target.replica + "/v1/responses/resp_gone") as answer:
            _expect(answer.status == 404 and _is_error(await answer.json()), "stored response", answer.status)
        body = {"model": target.completion(1)["model"], "input": "x", "previous_response_id": "resp_gone"}
        async with session.post(target.replica + "/v1/responses", json=body) as answer:
            found = await answer.json()
            _expect(answer.status == 404 and _is_error(found), "previous response", answer.status)
            _expect("stores no responses" in found["error"]["message"], "why it is gone", found)
    return "errors, paths and ids are as they should be"


async def equal(target: Target) -> str:
    """Both ways give the same answer: it is one engine."""
    said = []
    async with target.session() as session:
        for base in (target.replica, target.serve):
            async with session.post(base + _COMPLETIONS, json=target.completion(16)) as answer:
                document = await answer.json()
                said.append(document["choices"][0]["text"])
    _expect(said[0] == said[1], "the same text both ways", said)
    return f"both ways say {said[0][:20]!r}"


async def limit(target: Target) -> str:
    """No more than max_ongoing_requests are worked on at once; the rest waits, and is answered."""
    async with target.session() as session:
        config = (await target.deployment(session))["deployment_config"]
        most = int(config["max_ongoing_requests"])
        tasks = [asyncio.create_task(_ask(target, session, 64)) for _ in range(2 * most)]
        seen = 0
        while not all(task.done() for task in tasks):
            seen = max(seen, await _health(target, session, 200))
            await asyncio.sleep(0.1)
        statuses = {task.result() for task in tasks}
    _expect(statuses == {200}, "every one is answered", statuses)
    _expect(seen > most, "more were there than may run", (seen, most))
    return f"{2 * most} requests at a limit of {most}: {seen} there at once, all answered"


async def autoscaling(target: Target) -> str:
    """Requests past Serve's proxies scale the deployment up, and their end scales it down."""
    async with target.session() as session:
        config = (await target.deployment(session))["deployment_config"]["autoscaling_config"]
        least, wanted = int(config["min_replicas"]), int(config["min_replicas"]) + 1
        _expect(int(config["max_replicas"]) > least, "room to scale", config)
        clients = int(config["target_ongoing_requests"] * wanted)
        stop = asyncio.Event()
        tasks = [asyncio.create_task(_keep_asking(target, session, stop)) for _ in range(clients)]
        try:
            up = await _until(target, session, lambda count: count >= wanted, 180)
        finally:
            stop.set()
            await asyncio.gather(*tasks)
        down = await _until(target, session, lambda count: count <= least, 600)
    return f"{clients} requests: {wanted} replicas wanted after {up:.0f} s, {least} again {down:.0f} s after"


CHECKS: dict[str, Check] = {check.__name__: check for check in (answers, equal, limit, autoscaling)}


async def _ask(target: Target, session: aiohttp.ClientSession, tokens: int) -> int:
    async with session.post(target.replica + _COMPLETIONS, json=target.completion(tokens)) as answer:
        await answer.read()
        return answer.status


async def _keep_asking(target: Target, session: aiohttp.ClientSession, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await _ask(target, session, 64)


async def _health(target: Target, session: aiohttp.ClientSession, status: int) -> int:
    """Requests in progress, by the replica's own word."""
    async with session.get(target.replica + "/-/healthz") as answer:
        body = await answer.text()
        _expect(answer.status == status, "health", (answer.status, body))
        return int(body)


async def _until(
    target: Target, session: aiohttp.ClientSession, fits: Callable[[int], bool], seconds: float
) -> float:
    """Wait for Serve's target number of replicas; how long that took."""
    start = time.monotonic()
    while True:
        count = int((await target.deployment(session))["target_num_replicas"])
        passed = time.monotonic() - start
        if fits(count):
            return passed
        _expect(passed < seconds, f"another number of replicas within {seconds:.0f} s", count)
        await asyncio.sleep(0.5)


def _is_error(document: Any) -> bool:
    return isinstance(document, dict) and {"message", "type", "code"} <= set(document.get("error", ()))


def _expect(holds: bool, what: str, seen: object) -> None:
    if not holds:
        raise AssertionError(f"{what}: {json.dumps(seen, default=str)}")
