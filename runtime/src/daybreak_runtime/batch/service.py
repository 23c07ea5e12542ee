"""Client of an LLMService's gateway that answers rows: it sends concurrent requests and obeys `Retry-After`.

A gateway holds requests while its service wakes. Temporary rejections (429, 502, 503, 504) and broken
connections are retried until the row's patience ends. A permanent rejection is the row's error, unless it
applies to every row.
"""

import asyncio
import json
import os
import queue
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import aiohttp

from daybreak_runtime.batch.order import Request, Service
from daybreak_runtime.batch.output import Answer
from daybreak_runtime.batch.rows import openai_format
from daybreak_runtime.batch.rows.requests import messages, render, sampling_params
from daybreak_runtime.batch.rows.row_error import RowError
from daybreak_runtime.batch.rows.staging import Block
from daybreak_runtime.http.retry_after import retry_after
from daybreak_runtime.jobs.json_text import is_too_deep
from daybreak_runtime.jobs.problem import JobProblem

SERVICE_REFUSED = "ServiceRejected"
FOR_NOW = (408, 425, 429, 500, 502, 503, 504)
"""Status codes after which the same request may succeed."""
FOR_EVERY_ROW = (401, 403)
"""Status codes that every row would get."""
NOT_THERE = 404
"""Status code if no model has that name or it has no such task: every row would get it."""
NOT_THERE_SECONDS = 60.0
"""Seconds for which a 404 is retried, because a new name is not known everywhere immediately. If the name is
removed, the operator ends this job, which continues when the name exists again."""
PAUSE_SECONDS = (0.5, 30.0)
"""First and maximum pause in seconds, if the response names none."""
REQUEST_SECONDS = 1900.0
"""Maximum seconds of one request: a gateway holds it while the service wakes."""
_NO_PARAMETERS = ("model", "messages", "prompt", "input", "stream", "stream_options")
"""Fields of a request that `samplingParams` cannot set."""


class UnreadableAnswer(Exception):
    """Response of status 200 without a completion and without a vector."""


def answers(
    service: Service, request: Request, blocks: Sequence[Block], *, table: bool = False
) -> Iterator[list[Answer]]:
    """Yield the answers of the blocks' rows as they complete. Raises JobProblem if no row can be answered.

    Args:
        service: Service that answers.
        request: Rules for making a request from a row.
        blocks: The rows.
        table: True if the output has columns, so that a row keeps one text or vector of its answer.
    """
    done: queue.Queue[Answer | BaseException | None] = queue.Queue(4 * service.concurrency)

    def work() -> None:
        async def run() -> None:
            async for answer in _all(service, request, blocks, table):
                await asyncio.to_thread(done.put, answer)

        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 -- raised again for the waiting caller
            done.put(error)
        else:
            done.put(None)

    threading.Thread(target=work, daemon=True, name="service").start()
    while True:
        found: list[Answer] = []
        item = done.get()
        while isinstance(item, Answer):
            found.append(item)
            try:
                item = done.get_nowait()
            except queue.Empty:
                break
        if found:
            yield found
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return


async def _all(
    service: Service, request: Request, blocks: Sequence[Block], table: bool
) -> AsyncIterator[Answer]:
    headers = {"Authorization": f"Bearer {os.environ[service.key]}"} if service.key else {}
    limits = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=30)
    connector = aiohttp.TCPConnector(limit=service.concurrency)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=limits) as session:
        waiting: set[asyncio.Task[Answer]] = set()
        try:
            for block in blocks:
                for line in block.lines():
                    row = json.loads(line)
                    requested = _one(session, service, request, row["id"], row["columns"], table)
                    waiting.add(asyncio.create_task(requested))
                    if len(waiting) >= service.concurrency:
                        ready, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                        for task in ready:
                            yield task.result()
            while waiting:
                ready, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in ready:
                    yield task.result()
        finally:
            for task in waiting:
                task.cancel()


async def _one(
    session: aiohttp.ClientSession,
    service: Service,
    request: Request,
    row: int,
    columns: Mapping[str, Any],
    table: bool,
) -> Answer:
    try:
        path, body = ask(service, request, columns)
        if table and (lost := openai_format.lost_in_table(body)):
            raise openai_format.not_in_table(lost)
    except RowError as error:
        return Answer(row, columns, error=str(error)[:2000])
    except Exception as error:  # noqa: BLE001 -- an error of one row must not stop the others
        message = f"no request can be made of the row: {type(error).__name__}: {error}"
        return Answer(row, columns, error=message[:2000])
    began, pause, message = time.monotonic(), PAUSE_SECONDS[0], ""
    deadline = began + service.patience_seconds
    while True:
        wait = pause
        try:
            async with session.post(f"{service.url}{path}", json=body) as response:
                content = await response.read()
                if response.status == 200:
                    return Answer(row, columns, _read(content, path))
                message = f"HTTP {response.status}: {_message(content)}"
                gone = response.status == NOT_THERE
                if response.status in FOR_EVERY_ROW or (
                    gone and time.monotonic() - began > NOT_THERE_SECONDS
                ):
                    raise JobProblem(
                        SERVICE_REFUSED, f"the service {service.model} refuses every row: {message}"
                    )
                if response.status not in FOR_NOW and not gone:
                    return Answer(row, columns, error=message)
                wait = retry_after(response.headers.get("Retry-After")) or pause
        except UnreadableAnswer as error:
            return Answer(row, columns, error=str(error))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            message = f"{type(error).__name__}: {error}"
        if time.monotonic() + wait > deadline:
            return Answer(row, columns, error=f"not answered in {service.patience_seconds:g} s: {message}")
        # Random, so that rows that were rejected together do not return together.
        await asyncio.sleep(wait * random.uniform(1.0, 1.3))  # noqa: S311
        pause = min(2 * pause, PAUSE_SECONDS[1])


def ask(service: Service, request: Request, columns: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the path below the base URL, and the body. Raises RowError."""
    if "body" in columns and "custom_id" in columns:
        url, found = openai_format.body(columns, request.task)
        whole = openai_format.for_service(request, url, found)
        return url.removeprefix("/v1"), {**whole, "model": service.model}
    params = sampling_params(request, columns)
    for name in _NO_PARAMETERS:
        if params.get(name):
            raise RowError(f"{name} is no sampling parameter")
    if request.guided_json is not None:
        openai_format.check_guided(request.guided_json, params)
        params["response_format"] = openai_format.response_format(request.guided_json)
    chat = bool(request.messages or request.messages_column is not None or request.images)
    if request.task == "embed":
        path, wants = "/embeddings", "messages" if chat else "input"
    elif chat or request.use_chat_template:
        path, wants = "/chat/completions", "messages"
    else:
        path, wants = "/completions", "prompt"
    message = (
        messages(request, columns, remote=True)
        if wants == "messages"
        else render(request.prompt or "", columns)
    )
    if wants == "messages":
        params = {**params, **openai_format.template_fields(request, params)}
    return path, {"model": service.model, wants: message, **params}


def _read(content: bytes, path: str) -> dict[str, Any]:
    """Return the content of a response of status 200.

    Raises UnreadableAnswer, or ValueError if it is not JSON.
    """
    try:
        message = json.loads(content)
        if not is_too_deep(message):
            return _answer(message, path)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError):
        pass
    shown = content[:200].decode(errors="replace")
    raise UnreadableAnswer(f"the service answered 200 without a completion: {shown}")


def _answer(report: Mapping[str, Any], path: str) -> dict[str, Any]:
    usage = report.get("usage") or {}
    found: dict[str, Any] = {
        "body": report,
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
    }
    if path == "/embeddings":
        return {**found, "response": report["data"][0]["embedding"]}
    choice = report["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    return {**found, "response": text, "finish_reason": choice.get("finish_reason")}


def _message(content: bytes) -> str:
    try:
        report = json.loads(content)
        error = report.get("error", report)
        return str(error.get("message", error) if isinstance(error, dict) else error)[:500]
    except (ValueError, AttributeError):
        return content.decode(errors="replace")[:200]
