"""A route with a canary between two models of one service, and clients that ask by the route's name."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from openai import APIStatusError, OpenAI

from quickstart import chat
from story.objects.kubernetes import NAMESPACE, Kubernetes

ROUTE = "canary"
AT_ONCE = 6
"""Clients: no more than both models compute together."""
MOST_REQUESTS = 3000
"""That are sent until the canary is where it should be; with few it waits for more."""


def route(service: str, stable: str, canary: str, run: str) -> dict[str, Any]:
    """An LLMRoute that gives the canary more of the requests in steps of two seconds."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMRoute",
        "metadata": {"name": ROUTE},
        "spec": {
            "names": [ROUTE],
            "backends": [{"service": service, "model": stable}, {"service": service, "model": canary}],
            "canary": {
                "service": service,
                "model": canary,
                "steps": [{"weight": 30, "duration": "2s"}, {"weight": 60, "duration": "2s"}],
                "analysis": {"errorRate": 0.01, "minRequests": 12},
                "runID": run,
            },
        },
    }


def status(kubernetes: Kubernetes) -> dict[str, Any]:
    """What the operator says of the route."""
    found: dict[str, Any] = (kubernetes.get("llmroute", ROUTE) or {}).get("status", {})
    return found


def phase(seen: dict[str, Any], run: str) -> str:
    """How far a run of the canary is; empty while another one is told of."""
    found = seen.get("canary", {})
    return str(found.get("phase", "")) if found.get("runID", "") == run else ""


def ask_until(
    kubernetes: Kubernetes, good: Callable[[dict[str, Any]], bool]
) -> tuple[dict[str, Any], Counter[int]]:
    """Ask by the route's name until its status is good. Returns it, and how many had each status of HTTP."""
    statuses = Counter[int]()
    with (
        chat.connected(kubernetes.target, NAMESPACE, "llm", timeout=120) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        while not good(seen := status(kubernetes)):
            if statuses.total() >= MOST_REQUESTS:
                pytest.fail(f"not seen after {dict(statuses)}; last seen: {seen}")
            statuses += Counter(pool.map(lambda _: _ask(client), range(2 * AT_ONCE)))
    return seen, statuses


def _ask(client: OpenAI) -> int:
    try:
        client.completions.create(model=ROUTE, prompt="Good morning", max_tokens=1)
    except APIStatusError as error:
        return error.status_code
    return 200
