"""Single request to a service before the load: it wakes the service, and shows whether it answers."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from daybreak_runtime.benchmark.load.lengths import TOKENS
from daybreak_runtime.benchmark.order import Service
from daybreak_runtime.jobs.problem import JobProblem

NO_ANSWER = "NoAnswer"
PATIENCE_SECONDS = 1800.0
"""Maximum seconds of a wake; the service's gateway holds a request up to its own limit."""
_FOR_NOW = (408, 425, 429, 500, 502, 503, 504)
_PAUSE_SECONDS = 2.0


def awake(
    service: Service,
    patience: float = PATIENCE_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the service has answered one request. Raises JobProblem if it does not."""
    deadline = time.monotonic() + patience
    body = {"model": service.model, "prompt": [TOKENS[0]], "max_tokens": 1}
    headers = {"Content-Type": "application/json"}
    if service.key is not None:
        headers["Authorization"] = f"Bearer {os.environ[service.key]}"
    requested = urllib.request.Request(  # noqa: S310 -- the address of a service in the cluster
        f"{service.url}/completions", json.dumps(body).encode(), headers
    )
    while True:
        try:
            with urllib.request.urlopen(requested, timeout=patience):  # noqa: S310
                return
        except urllib.error.HTTPError as error:
            message = f"HTTP {error.code}: {error.read(500).decode(errors='replace')}"
            if error.code not in _FOR_NOW:
                raise JobProblem(NO_ANSWER, f"the service refuses requests: {message}") from error
        except OSError as error:
            message = f"{type(error).__name__}: {error}"
        if time.monotonic() > deadline:
            raise JobProblem(NO_ANSWER, f"the service did not answer within {patience:.0f} s: {message}")
        sleep(_PAUSE_SECONDS)
