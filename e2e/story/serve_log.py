"""What Ray Serve has written down of a storm: how often each of its requests reached the model's server.

A client sees one answer to each request, however often the request was sent on behind its back. So it is
counted where it arrives: each request brings an `X-Request-Id` of its own, and the ingress, which every
request to a model passes, writes one line with this id for each that has ended, however it did:

    INFO 2026-11-22 05:09:12,127 llm_OpenAiIngress 2t1w9y8n storm-0a1b2c3d-7 -- POST /v1/completions 200 9.8ms

The ingress runs on the Ray head, which stays where only the workers sleep, and its logs with it.
"""

import re
from collections import Counter
from collections.abc import Iterable

from story.kubernetes import NAMESPACE, Kubernetes

FILES = "/tmp/ray/session_latest/logs/serve/replica_*OpenAiIngress_*.log*"  # noqa: S108 -- Ray's own place
"""Logs of every ingress process, also those that Ray has put aside as too long. Serve's proxies write lines
of the same form, which must not be counted too, into files of their own."""


def reached(kubernetes: Kubernetes, name: str, storm: str) -> dict[int, int]:
    """How often each request of a storm has reached the LLMService's ingress, by its number.

    Raises LookupError when not one has: then this is no count, whatever else is wrong.
    """
    heads = kubernetes.names("pods", "-l", f"daybreak.dev/service={name},ray.io/node-type=head")
    lines = [line for head in heads for line in _lines(kubernetes, head, storm)]
    found = count(lines, storm)
    if not found:
        raise LookupError(f"no request of {storm} in {FILES} of {heads}; lines with its name: {lines[:3]}")
    return found


def count(lines: Iterable[str], storm: str) -> dict[int, int]:
    """How often each request of a storm stands in the lines of the ingress's access log, by its number."""
    line = re.compile(rf" {re.escape(storm)}-(\d+) -- POST \S+ \S+ [\d.]+ms$")
    return dict(Counter(int(found[1]) for found in map(line.search, lines) if found))


def _lines(kubernetes: Kubernetes, pod: str, storm: str) -> list[str]:
    # grep ends with 1 where nothing is found, which is for the caller to judge, and with 2 without a file.
    script = f"grep -hF ' {storm}-' {FILES} || test $? -eq 1"
    text = kubernetes.target.kubectl("exec", "-n", NAMESPACE, pod, "-c", "ray-head", "--", "sh", "-c", script)
    return text.splitlines()
