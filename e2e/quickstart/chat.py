"""Chat of a real OpenAI client with the service through `kubectl port-forward`."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cluster.errors import ClusterError
from quickstart.target import Target, program

if TYPE_CHECKING:
    from openai import OpenAI


@contextmanager
def port_forward(target: Target, namespace: str, service: str) -> Iterator[str]:
    """Forward a free loopback port to the Service's port 80 and yield the base URL for a client.

    Raises ClusterError if kubectl cannot forward.
    """
    with subprocess.Popen(  # noqa: S603 - a fixed tool, arguments from this package
        [
            program("kubectl"),
            "-n",
            namespace,
            "port-forward",
            f"service/{service}",
            ":80",
            "--address=127.0.0.1",
        ],
        env=target.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - a pipe is requested above
            found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            if found is None:
                raise ClusterError(f"kubectl port-forward failed: {process.communicate()[1].strip()}")
            yield f"http://127.0.0.1:{found.group(1)}/v1"
        finally:
            process.terminate()


@contextmanager
def connected(target: Target, namespace: str, service: str, timeout: float = 120.0) -> Iterator["OpenAI"]:
    """Yield a client of the service through `port_forward`, without client retries; timeout in seconds."""
    # Imported here: it costs seconds of CPU, which runs that only install or remove can save.
    from openai import OpenAI

    with (
        port_forward(target, namespace, service) as base_url,
        OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=timeout) as client,
    ):
        yield client


def ask(client: "OpenAI", model: str, question: str) -> str:
    """Return one chat answer."""
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": question}], max_tokens=24
    )
    return answer.choices[0].message.content or ""
