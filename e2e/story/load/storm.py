"""Load of many requests to one service over kept-alive connections, with each answer checked."""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError

from story.load.request_log import count as counted
from story.load.request_log import ingress_lines, replica_lines
from story.objects.kubernetes import Kubernetes
from story.objects.phases import Phases, turned_round, watched

AT_ONCE = 48
"""Number of connections: several for each request that the tiny model computes concurrently."""
TIMEOUT_SECONDS = 900.0
TRIES = 8
"""Maximum number of attempts to cancel a closing gate."""
KEEP_SECONDS = 30.0
"""Maximum time without use of the connections, in seconds: the gateway closes them after 75 s."""
POISED_SECONDS = 8.0
"""Time for which the end of a request is withheld, in seconds; gateways wait 10 s for it."""


@dataclass
class Tally:
    """Results of the requests."""

    sent: int = 0
    answered: int = 0
    """Number of requests that received their own answer."""
    wrong: list[str] = field(default_factory=list)
    """Answers that belong to another request, or to none."""
    lost: list[str] = field(default_factory=list)
    """Requests that ended in an error."""
    reached: dict[int, int] = field(default_factory=dict)
    """Number of times that each request, by its number, has reached a replica or Ray Serve's ingress."""
    at_replicas: int = 0
    """Number of requests that reached a replica's own port."""
    connections: int = 0
    """Number of connections opened, from the first request to the last."""
    slowest: float = 0.0
    """Duration of the longest request, in seconds."""
    waves: list[tuple[str, int]] = field(default_factory=list)
    """Known phase at the first request of each wave, and the wave's number of requests."""
    phases: list[str] = field(default_factory=list)
    """Every phase that the service went through."""

    @property
    def never_there(self) -> list[int]:
        """Return the requests that never reached the model's server."""
        return [number for number in range(1, self.sent + 1) if number not in self.reached]

    @property
    def there_twice(self) -> list[int]:
        """Return the requests that reached the model's server more than once."""
        return [number for number, times in self.reached.items() if times > 1]

    @property
    def turned_round(self) -> int:
        """Return how often requests kept the service from falling asleep after its gate had closed."""
        return turned_round(self.phases)


class Storm:
    """Client that sends waves of requests and counts the results.

    Each prompt has a unique number, which vLLM repeats before its answer (`echo`). The id of each request
    also contains this number, so the server that accepts it for the model logs it.
    """

    def __init__(self, base_url: str, model: str) -> None:
        self.name = f"storm-{uuid.uuid4().hex[:8]}"
        self.tally = Tally()
        self._model = model
        self._http = self._connections()
        self._client = AsyncOpenAI(
            base_url=base_url, api_key="none", max_retries=0, timeout=TIMEOUT_SECONDS, http_client=self._http
        )
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._tasks: list[asyncio.Task[None]] = []
        self._ends: list[asyncio.Event] = []

    def wave(self, phase: str, count: int) -> None:
        """Send `count` requests, without waiting for the answers."""
        self.tally.waves.append((phase, count))
        for _ in range(count):
            self._send()

    def poise(self, count: int) -> None:
        """Send `count` requests without their last byte: for a gateway, they have not arrived yet."""
        self._ends = [asyncio.Event() for _ in range(count)]
        for end in self._ends:
            self._send(end)

    async def let_go(self, phase: str, pause: float) -> None:
        """Send the last bytes of the poised requests, one after the other."""
        self.tally.waves.append((phase, len(self._ends)))
        for end in self._ends:
            end.set()
            await asyncio.sleep(pause)

    async def calm(self) -> None:
        """Wait for every answer."""
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks)

    async def keep(self) -> None:
        """Use every connection, so that the gateway does not close it.

        A list of models does not count as use of the model.
        """

        async def look() -> None:
            await self._client.models.list()

        await asyncio.gather(*(look() for _ in range(AT_ONCE)))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _connections(self) -> httpx2.AsyncClient:
        # The client's own pool would drop a connection after 5 s: none would survive a sleep.
        limits = httpx2.Limits(
            max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE, keepalive_expiry=TIMEOUT_SECONDS
        )
        return DefaultAsyncHttpxClient(
            limits=limits, timeout=TIMEOUT_SECONDS, event_hooks={"request": [self._trace]}
        )

    async def _trace(self, request: httpx2.Request) -> None:
        request.extensions["trace"] = self._traced

    async def _traced(self, event: str, _: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self.tally.connections += 1

    def _send(self, end: asyncio.Event | None = None) -> None:
        self.tally.sent += 1
        self._tasks.append(asyncio.create_task(self._ask(self.tally.sent, end)))

    async def _ask(self, number: int, end: asyncio.Event | None) -> None:
        prompt = f"request {number}:"
        body = {"model": self._model, "prompt": prompt, "max_tokens": 2, "echo": True}
        name = {"X-Request-Id": f"{self.name}-{number}"}
        async with self._turn:
            began = time.monotonic()
            try:
                if end is not None:
                    text = await self._answer_after(end, body, name)
                else:
                    text = await self._answer(body, name, stream=number % 4 == 0)
            except (OpenAIError, httpx2.HTTPError) as error:
                self.tally.lost.append(f"{prompt} {type(error).__name__} {error}")
                return
            finally:
                self.tally.slowest = max(self.tally.slowest, time.monotonic() - began)
        if text.startswith(prompt):
            self.tally.answered += 1
        else:
            self.tally.wrong.append(f"{prompt} {text!r}")

    async def _answer(self, body: dict[str, Any], headers: dict[str, str], *, stream: bool) -> str:
        if not stream:
            answer = await self._client.completions.create(**body, extra_headers=headers)
            return str(answer.choices[0].text)
        # Line by line to the very end: after the answer's last word, the client's own stream waits only a
        # moment for its end and then closes the connection. A busy server takes that for a client that left.
        create = self._client.completions.with_streaming_response.create
        async with create(**body, extra_headers=headers, stream=True) as response:
            lines = [line async for line in response.iter_lines()]
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
        return "".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"])

    async def _answer_after(self, end: asyncio.Event, body: dict[str, Any], headers: dict[str, str]) -> str:
        """Return the answer to a request whose last byte waits for an event, unlike with OpenAI's client."""
        text = json.dumps(body).encode()

        async def pieces() -> AsyncIterator[bytes]:
            yield text[:-1]
            await end.wait()
            yield text[-1:]

        form = {"Content-Type": "application/json", "Content-Length": str(len(text))}
        url = f"{self._client.base_url}completions"
        answer = await self._http.post(url, content=pieces(), headers=headers | form)
        answer.raise_for_status()
        return str(answer.json()["choices"][0]["text"])


async def through_every_transition(
    kubernetes: Kubernetes, name: str, base: str, model: str, count: int
) -> Tally:
    """Send waves while the service is awake, during each transition of the gate, while it sleeps and wakes.

    The transitions are the closing and the opening of the gate.

    Args:
        kubernetes: The cluster.
        name: The LLMService; it sleeps (depth Workers) after 4 s.
        base: Its base URL.
        model: Its model.
        count: Minimum number of requests.
    """
    client = Storm(base, model)
    try:
        async with watched(kubernetes, name) as phases, replica_lines(client.name) as replicas:
            await _transitions(client, phases, lambda: workers(kubernetes, name), count)
    finally:
        await client.close()
    # All lines are written by now: the gateways have nothing in flight.
    by_proxy = await asyncio.to_thread(ingress_lines, kubernetes, name, client.name)
    client.tally.reached = counted([*by_proxy, *replicas.lines], client.name)
    client.tally.at_replicas = len(replicas.lines)
    return client.tally


async def through_those_of_a_model_server(
    kubernetes: Kubernetes, name: str, base: str, model: str, count: int
) -> Tally:
    """Send the waves to a ModelServer, without counts: its engine does not log arrivals of requests."""
    client, label = Storm(base, model), f"daybreak.dev/owner-kind=ModelServer,daybreak.dev/owner-name={name}"
    try:
        async with watched(kubernetes, name, "modelserver") as phases:
            await _transitions(client, phases, lambda: kubernetes.names("pods", "-l", label), count)
    finally:
        await client.close()
    return client.tally


async def _transitions(client: Storm, phases: Phases, pods: Callable[[], Sequence[str]], count: int) -> None:
    client.tally.phases = phases.observed
    client.wave(phases.now, 200)
    await client.calm()
    await _into_the_closing(client, phases)
    await _to_zero(client, phases, pods)
    client.wave(phases.now, 200)
    await phases.until("Waking", "Awake")
    while phases.now == "Waking":
        client.wave(phases.now, 5)
        await asyncio.sleep(1)
    client.wave(phases.now, max(200, count - client.tally.sent))
    await client.calm()
    await phases.until("Asleep")


async def _into_the_closing(client: Storm, phases: Phases) -> None:
    """Let requests arrive while the gate closes, until some have canceled the sleep.

    The gateways read that the gate closes when this client does, and the transition ends some 20 ms later:
    too soon for requests that only then begin. These requests therefore lack only a byte. A request that
    arrives before its gateway has closed is forwarded, and the model does not sleep until it is answered. A
    later request is held, which cancels the sleep. This succeeds in two of three attempts, even if the
    machine is busy.
    """
    for _ in range(TRIES):
        before = len(phases.observed)
        client.poise(20)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POISED_SECONDS):
                await phases.until("Draining", since=before)
        await client.let_go(phases.now, pause=0.01)
        await client.calm()
        await phases.until("Awake", "Asleep")
        if turned_round(phases.observed[before:]):
            return
        # The service may sleep by now, and only an awake service allows another attempt. On a slow machine,
        # it may have fallen asleep once more before the next check: the next requests wake it.
        tried = len(phases.observed)
        # Use every connection: the gateway closes those that are idle for 75 s, and on a slow machine two
        # attempts take longer.
        client.wave(phases.now, AT_ONCE)
        await client.calm()
        await phases.until("Awake", since=tried - 1)


async def _to_zero(client: Storm, phases: Phases, pods: Callable[[], Sequence[str]]) -> None:
    """Wait until the service sleeps without pods: a pod that has not ended would soon serve again."""
    await phases.until("Asleep")
    async with asyncio.timeout(600):
        kept = time.monotonic()
        while await asyncio.to_thread(pods):
            if time.monotonic() - kept > KEEP_SECONDS:
                await client.keep()
                kept = time.monotonic()
            await asyncio.sleep(1)


def workers(kubernetes: Kubernetes, name: str) -> list[str]:
    """Return the worker pods of the LLMService."""
    return kubernetes.names(
        "pods",
        "-l",
        f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={name},ray.io/node-type=worker",
    )


def phase(kubernetes: Kubernetes, name: str) -> str:
    """Return the phase of the LLMService."""
    message: str = (kubernetes.get("llm", name) or {})["status"]["phase"]
    return message
