"""Access logs of a storm at the servers: how often each request reached the model.

A client sees one answer to each request, no matter how often a gateway forwarded it. Requests are therefore
counted on arrival. Each request has its own `X-Request-Id`. The server that accepts it for the model writes
one line with this id at its end, whatever the outcome. The server is a replica, at its own port, or Ray
Serve's ingress on the head for requests through Serve's proxy.

    INFO 2026-11-22 05:09:12,127 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-7 -- POST /v1/completions 200 9.8ms
    INFO 2026-11-22 05:09:12,127 llm_LLMServer:tiny n7rnwoz storm-0a1b2c3d-8 -- POST /v1/completions 200 8.1ms

If only the workers sleep, the head and its logs remain. A worker's logs are deleted with its pod, so they are
opened on the node as soon as they exist: an open file stays readable after its name is deleted.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cluster import paths
from story.objects.kubernetes import NAMESPACE, Kubernetes

_LOGS = "/tmp/ray/session_latest/logs/serve"  # noqa: S108 -- Ray's own place
INGRESS_FILES = f"{_LOGS}/replica_*OpenAiIngress_*.log*"
"""Logs of every ingress process, including those that Ray has rotated.

Serve's proxies write lines of the same form into separate files, which must not be counted too.
"""
REPLICA_FILES = (
    "pods/*/volumes/kubernetes.io~empty-dir/ray-logs/session_2*/logs/serve/replica_*LLMServer*.log"
)
"""Logs of every replica on the node, below the kubelet's folder."""
LOOK_SECONDS = 0.2
"""Time between two searches for new logs, in seconds."""


class ReplicaLines:
    """Lines that replicas log of a storm, collected while it lasts.

    An open log is read to its end, even after its pod and the file's name are deleted.
    """

    def __init__(self, storm: str) -> None:
        self.lines: list[str] = []
        self._storm = storm
        self._open: dict[Path, BinaryIO] = {}

    async def follow(self) -> None:
        """Open the log of every new replica until canceled, then read all logs."""
        try:
            while True:
                await asyncio.to_thread(self._look)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._look()
            for log in self._open.values():
                with log:
                    self.lines += [
                        line
                        for line in log.read().decode(errors="replace").splitlines()
                        if f" {self._storm}-" in line
                    ]

    def _look(self) -> None:
        for path in paths.KUBELET_ROOT.glob(REPLICA_FILES):
            if path not in self._open:
                with suppress(FileNotFoundError):  # the pod has been deleted since
                    self._open[path] = path.open("rb")


@asynccontextmanager
async def replica_lines(storm: str) -> AsyncIterator[ReplicaLines]:
    """Follow all replicas during the block; the lines are complete when it ends."""
    found = ReplicaLines(storm)
    following = asyncio.create_task(found.follow())
    try:
        yield found
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def ingress_lines(kubernetes: Kubernetes, name: str, storm: str) -> list[str]:
    """Return the lines that the LLMService's ingress logged of a storm."""
    heads = kubernetes.names(
        "pods",
        "-l",
        f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={name},ray.io/node-type=head",
    )
    return [line for head in heads for line in _lines(kubernetes, head, storm)]


def count(lines: Iterable[str], storm: str) -> dict[int, int]:
    """Count the access log lines of each request of a storm, by its number.

    Raises LookupError if no request is in the lines: the logs are then unusable, whatever else is wrong.
    """
    line, lines = re.compile(rf" {re.escape(storm)}-(\d+) -- POST \S+ \S+ [\d.]+ms$"), list(lines)
    found = dict(Counter(int(found[1]) for found in map(line.search, lines) if found))
    if not found:
        raise LookupError(f"no request of {storm} in the access logs; lines with its name: {lines[:3]}")
    return found


def _lines(kubernetes: Kubernetes, pod: str, storm: str) -> list[str]:
    # grep exits with 1 without a match, which the caller judges, and with 2 without a file.
    script = f"grep -hF ' {storm}-' {INGRESS_FILES} || test $? -eq 1"
    text = kubernetes.target.kubectl("exec", "-n", NAMESPACE, pod, "-c", "ray-head", "--", "sh", "-c", script)
    return text.splitlines()
