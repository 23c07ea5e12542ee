"""Route with a canary between two models of one service, and clients that use the route's name."""

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
"""Number of clients: at most the number of requests that both models compute concurrently."""
MOST_REQUESTS = 3000
"""Maximum number of requests until the canary reaches its goal; with few requests it waits for more."""


def route(service: str, stable: str, canary: str, run: str) -> dict[str, Any]:
    """Return an LLMRoute that raises the canary's share of the requests in steps of 2 s."""
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
    """Return the route's status."""
    found: dict[str, Any] = (kubernetes.get("llmroute", ROUTE) or {}).get("status", {})
    return found


def phase(observed: dict[str, Any], run: str) -> str:
    """Return the phase of the canary's run, or "" while the status reports another run."""
    found = observed.get("canary", {})
    return str(found.get("phase", "")) if found.get("runID", "") == run else ""


def ask_until(
    kubernetes: Kubernetes, good: Callable[[dict[str, Any]], bool]
) -> tuple[dict[str, Any], Counter[int]]:
    """Send requests by the route's name until its status is good; return it and a count per HTTP status."""
    statuses = Counter[int]()
    with (
        chat.connected(kubernetes.target, NAMESPACE, "llm", timeout=120) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        while not good(observed := status(kubernetes)):
            if statuses.total() >= MOST_REQUESTS:
                pytest.fail(f"not seen after {dict(statuses)}; last seen: {observed}")
            statuses += Counter(pool.map(lambda _: _ask(client), range(2 * AT_ONCE)))
    return observed, statuses


def _ask(client: OpenAI) -> int:
    try:
        client.completions.create(model=ROUTE, prompt="Good morning", max_tokens=1)
    except APIStatusError as error:
        return error.status_code
    return 200
