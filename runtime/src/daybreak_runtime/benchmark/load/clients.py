"""One process of the load: `python -m daybreak_runtime.benchmark.load.clients < job.json > seen.json`.

Its first line of output is `ready`, when all is loaded: only then it receives its job, which has close start
and end times. Requests are sent and timed by the functions of `vllm bench serve`, so that its figures and
these mean the same. This program decides when a request is sent, and until when: `vllm bench serve` sends a
number of requests, but a step has a duration.
"""

import asyncio
import importlib.util
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp

from daybreak_runtime.benchmark.load.lengths import PlannedRequest, requests
from daybreak_runtime.benchmark.order import Lengths, Load
from daybreak_runtime.benchmark.outcome import FinishedRequest

READY = "ready"
REQUEST_SECONDS = 600.0
MOST_IN_FLIGHT = 4096
"""Maximum number of concurrent requests of one process with an open loop; further ones wait inside the
process."""
_PAUSE_SECONDS = 0.2
"""Pause in seconds after an error: a failing server must not receive ten thousand requests per second."""
_FUNCTIONS = "benchmarks/lib/endpoint_request_func.py"


@dataclass(frozen=True)
class Job:
    """Task of one process."""

    url: str
    """Base URL of the OpenAI API."""
    model: str
    key: str | None
    """Name of the variable with the API key."""
    load: Load
    clients: tuple[int, ...]
    """Numbers of the clients of a closed loop."""
    rate: float | None
    """Share of this process in the rate of an open loop."""
    number: int
    begin: float
    """Start on the monotonic clock, as for `end`."""
    end: float

    @classmethod
    def read(cls, plain: dict[str, Any]) -> "Job":
        """Read a job from its JSON form."""
        load = dict(plain["load"])
        for name in ("prompt_tokens", "output_tokens"):
            load[name] = Lengths(**load[name])
        load["recorded"] = tuple((one, other) for one, other in load["recorded"])
        return cls(**{**plain, "load": Load(**load), "clients": tuple(plain["clients"])})


def functions() -> ModuleType:
    """Return vLLM's module of functions that send and time a request.

    It loads the file alone: an import of the package would load torch, in each process of the load.
    """
    found = importlib.util.find_spec("vllm")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("vllm is not installed here")
    file = Path(found.submodule_search_locations[0], _FUNCTIONS)
    spec = importlib.util.spec_from_file_location("daybreak_vllm_requests", file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"this vLLM has no {_FUNCTIONS}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


class Process:
    """Clients of one process."""

    def __init__(self, job: Job, library: Any, session: aiohttp.ClientSession) -> None:
        self._job = job
        self._library = library
        self._session = session
        self._extra: dict[str, Any] = {"ignore_eos": True, "temperature": 0.0}
        key = os.environ[job.key] if job.key else ""
        self._headers = {"Authorization": f"Bearer {key}"} if key else None
        self.observed: list[FinishedRequest] = []

    async def run(self) -> None:
        """Run the whole load. Clients that still wait at the end leave."""
        await asyncio.sleep(max(0.0, self._job.begin - time.monotonic()))
        loops = (
            [self._closed(number) for number in self._job.clients]
            if self._job.rate is None
            else [self._open(self._job.rate)]
        )
        try:
            async with asyncio.timeout(max(0.0, self._job.end - time.monotonic())):
                await asyncio.gather(*loops)
        except TimeoutError:
            return

    async def _closed(self, number: int) -> None:
        desired = requests(self._job.load, number)
        # Not all clients at the same time.
        await asyncio.sleep(random.Random(number).random())  # noqa: S311 -- a load, not a secret
        while True:
            one = await self._ask(next(desired))
            if one.error:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _open(self, rate: float) -> None:
        desired = requests(self._job.load, self._job.number)
        under_way: set[asyncio.Task[FinishedRequest]] = set()
        for moment in arrivals(rate, self._job.load, self._job.number, self._job.begin):
            await asyncio.sleep(max(0.0, moment - time.monotonic()))
            if len(under_way) >= MOST_IN_FLIGHT:
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._ask(next(desired)))
            under_way.add(task)
            task.add_done_callback(under_way.discard)

    async def _ask(self, desired: PlannedRequest) -> FinishedRequest:
        requested = self._library.RequestFuncInput(
            prompt=desired.prompt,
            api_url=f"{self._job.url}/completions",
            prompt_len=len(desired.prompt),
            output_len=desired.output,
            model=self._job.model,
            extra_headers=self._headers,
            extra_body=self._extra,
        )
        sent = time.monotonic()
        answer = await self._library.async_request_openai_completions(requested, self._session)
        error = "" if answer.success else _last_line(answer.error)
        latency = answer.latency if answer.success else time.monotonic() - sent
        one = FinishedRequest(sent, answer.ttft, latency, answer.output_tokens or 0, error)
        self.observed.append(one)
        return one


def arrivals(rate: float, load: Load, number: int, begin: float) -> Iterator[float]:
    """Yield the times at which an open loop sends requests, on the monotonic clock."""
    dice = random.Random(f"{load.seed} arrivals {number}")  # noqa: S311
    pauses = (dice.gammavariate(load.burstiness, 1 / (rate * load.burstiness)) for _ in itertools.count())
    return itertools.accumulate(pauses, initial=begin)


async def run(job: Job, library: ModuleType) -> list[FinishedRequest]:
    """Run a job and return its requests."""
    limits = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=30)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:
        process = Process(job, library, session)
        await process.run()
        return process.observed


def _last_line(text: str) -> str:
    """Return the last line of a traceback: the exception."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no answer"


def main() -> None:
    """Run the program."""
    library = functions()
    print(READY, flush=True)
    job = Job.read(json.load(sys.stdin))
    observed = asyncio.run(run(job, library))
    json.dump([list(asdict(one).values()) for one in observed], sys.stdout)


if __name__ == "__main__":
    main()
