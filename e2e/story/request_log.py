"""What was written down of a storm where its requests arrived: how often each of them reached the model.

A client sees one answer to each request, however often the request was sent on behind its back. So it is
counted where it arrives: each request brings an `X-Request-Id` of its own, and whoever takes it for the model
writes one line with this id when it has ended, however it did: a replica, at its own port, or Ray Serve's
ingress on the head, for what came by Serve's proxy.

    INFO 2026-11-22 05:09:12,127 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-7 -- POST /v1/completions 200 9.8ms
    INFO 2026-11-22 05:09:12,127 llm_LLMServer:tiny n7rnwoz storm-0a1b2c3d-8 -- POST /v1/completions 200 8.1ms

The head stays where only the workers sleep, and its logs with it. Those of a worker go with its pod, so they
are followed from its beginning to its end.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from quickstart.target import program
from story.kubernetes import NAMESPACE, Kubernetes

_LOGS = "/tmp/ray/session_latest/logs/serve"  # noqa: S108 -- Ray's own place
INGRESS_FILES = f"{_LOGS}/replica_*OpenAiIngress_*.log*"
"""Logs of every ingress process, also those that Ray has put aside as too long. Serve's proxies write lines
of the same form, which must not be counted too, into files of their own."""
REPLICA_FILES = f"{_LOGS}/replica_*LLMServer*.log"
LOOK_SECONDS = 0.5
"""Time between two looks at which workers there are."""


class ReplicaLines:
    """What replicas have written down of a storm, while it lasts."""

    def __init__(self, kubernetes: Kubernetes, name: str, storm: str) -> None:
        self.lines: list[str] = []
        self._kubernetes = kubernetes
        self._name = name
        self._storm = storm
        self._followed: dict[str, asyncio.Task[None]] = {}

    async def follow(self) -> None:
        """Follow the log of every worker that there is, until cancelled."""
        try:
            while True:
                selector = f"daybreak.dev/service={self._name},ray.io/node-type=worker"
                for pod in await asyncio.to_thread(self._kubernetes.names, "pods", "-l", selector):
                    task = self._followed.get(pod)
                    if task is None or task.done():  # its container had not started
                        self._followed[pod] = asyncio.create_task(self._follow_one(pod))
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in self._followed.values():
                task.cancel()
            await asyncio.gather(*self._followed.values(), return_exceptions=True)

    async def _follow_one(self, pod: str) -> None:
        known = len([line for line in self.lines if line.startswith(f"{pod} ")])
        there = f"until ls {REPLICA_FILES} >/dev/null 2>&1; do sleep 0.2; done"
        script = f"{there}; exec tail -q -n +1 -F {REPLICA_FILES}"
        reading = await asyncio.create_subprocess_exec(
            program("kubectl"), "exec", "-n", NAMESPACE, pod, "-c", "ray-worker", "--", "sh", "-c", script,
            env=self._kubernetes.target.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert reading.stdout is not None
        try:
            async for line in reading.stdout:
                text = line.decode(errors="replace").rstrip()
                if f" {self._storm}-" not in text:
                    continue
                # A log that is followed anew begins anew.
                if known:
                    known -= 1
                    continue
                self.lines.append(f"{pod} {text}")
        finally:
            if reading.returncode is None:
                reading.terminate()
            await reading.wait()


@asynccontextmanager
async def replica_lines(kubernetes: Kubernetes, name: str, storm: str) -> AsyncIterator[ReplicaLines]:
    """Follow the replicas of an LLMService while this is entered."""
    found = ReplicaLines(kubernetes, name, storm)
    following = asyncio.create_task(found.follow())
    try:
        yield found
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def ingress_lines(kubernetes: Kubernetes, name: str, storm: str) -> list[str]:
    """What the LLMService's ingress has written down of a storm."""
    heads = kubernetes.names("pods", "-l", f"daybreak.dev/service={name},ray.io/node-type=head")
    return [line for head in heads for line in _lines(kubernetes, head, storm)]


def count(lines: Iterable[str], storm: str) -> dict[int, int]:
    """How often each request of a storm stands in the lines of access logs, by its number.

    Raises LookupError when not one does: then this is no count, whatever else is wrong.
    """
    line, lines = re.compile(rf" {re.escape(storm)}-(\d+) -- POST \S+ \S+ [\d.]+ms$"), list(lines)
    found = dict(Counter(int(found[1]) for found in map(line.search, lines) if found))
    if not found:
        raise LookupError(f"no request of {storm} in the access logs; lines with its name: {lines[:3]}")
    return found


def _lines(kubernetes: Kubernetes, pod: str, storm: str) -> list[str]:
    # grep ends with 1 where nothing is found, which is for the caller to judge, and with 2 without a file.
    script = f"grep -hF ' {storm}-' {INGRESS_FILES} || test $? -eq 1"
    text = kubernetes.target.kubectl("exec", "-n", NAMESPACE, pod, "-c", "ray-head", "--", "sh", "-c", script)
    return text.splitlines()
