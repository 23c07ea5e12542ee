"""What was written down of a storm where its requests arrived: how often each of them reached the model.

A client sees one answer to each request, however often the request was sent on behind its back. So it is
counted where it arrives: each request brings an `X-Request-Id` of its own, and whoever takes it for the model
writes one line with this id when it has ended, however it did: a replica, at its own port, or Ray Serve's
ingress on the head, for what came by Serve's proxy.

    INFO 2026-11-22 05:09:12,127 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-7 -- POST /v1/completions 200 9.8ms
    INFO 2026-11-22 05:09:12,127 llm_LLMServer:tiny n7rnwoz storm-0a1b2c3d-8 -- POST /v1/completions 200 8.1ms

The head stays where only the workers sleep, and its logs with it. Those of a worker go with its pod, so they
are opened on the node as soon as they are there: what is open can be read when its name has gone.
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
"""Logs of every ingress process, also those that Ray has put aside as too long. Serve's proxies write lines
of the same form, which must not be counted too, into files of their own."""
REPLICA_FILES = (
    "pods/*/volumes/kubernetes.io~empty-dir/ray-logs/session_2*/logs/serve/replica_*LLMServer*.log"
)
"""Logs of every replica on the node, below the kubelet's folder."""
LOOK_SECONDS = 0.2
"""Time between two looks at which logs there are."""


class ReplicaLines:
    """What replicas have written down of a storm, while it lasts.

    A log that has been opened is read to its end, also when its pod and the file's name have gone.
    """

    def __init__(self, storm: str) -> None:
        self.lines: list[str] = []
        self._storm = storm
        self._open: dict[Path, BinaryIO] = {}

    async def follow(self) -> None:
        """Open the log of every replica that comes, until cancelled; then read them all."""
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
                with suppress(FileNotFoundError):  # its pod has gone since
                    self._open[path] = path.open("rb")


@asynccontextmanager
async def replica_lines(storm: str) -> AsyncIterator[ReplicaLines]:
    """Follow all replicas while this is entered; the lines are there when it is left."""
    found = ReplicaLines(storm)
    following = asyncio.create_task(found.follow())
    try:
        yield found
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def ingress_lines(kubernetes: Kubernetes, name: str, storm: str) -> list[str]:
    """What the LLMService's ingress has written down of a storm."""
    heads = kubernetes.names(
        "pods",
        "-l",
        f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={name},ray.io/node-type=head",
    )
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
