"""Engines of other projects as ModelServers: a request of each engine's public client wakes it from sleep."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from openai import OpenAI
from tritonclient import http as triton

from cluster.images import catalog
from story.objects.kubernetes import NAMESPACE, Kubernetes, eventually

TRACKING = "tracking"
WAIT = 600
"""Maximum time in seconds that a client waits for its answer."""
LLAMA: dict[str, Any] = {
    "engine": "llama.cpp",
    "model": {"name": "tiny-gguf", "source": "file:///models/tiny.gguf"},
    "engineArgs": {"ctx_size": 1024},
}
MLFLOW: dict[str, Any] = {
    "engine": "mlflow",
    "model": {"name": "words", "source": "mlflow://words/1"},
    "env": [{"name": "MLFLOW_TRACKING_URI", "value": f"http://{TRACKING}:5000"}],
}
KSERVE: dict[str, Any] = {
    "engine": "custom",
    "protocol": "V2",
    "model": {"name": "sum", "source": "file:///opt/engines/kserve"},
    "command": ["/opt/kserve/bin/python", "/opt/engines/kserve/server.py"],
    "args": ["--model_name={model}", "--http_port={port}", "--enable_grpc=false"],
    "readinessPath": "/v2/models/{model}/ready",
}


def ask_llama(host: str) -> None:
    """Ask llama.cpp's server with OpenAI's client: a response and a stream."""
    messages: list[Any] = [{"role": "user", "content": "Good morning"}]
    with OpenAI(base_url=f"http://{host}/v1", api_key="none", max_retries=0, timeout=WAIT) as client:
        answer = client.chat.completions.create(model="tiny-gguf", messages=messages, max_tokens=4)
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 4
        chunks = client.chat.completions.create(
            model="tiny-gguf", messages=messages, max_tokens=4, stream=True
        )
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"


def ask_mlflow(host: str) -> None:
    """Ask MLflow's scoring server as its documentation does: a table in JSON."""
    body = {"dataframe_split": {"columns": ["text"], "data": [["three short words"], ["one"]]}}
    request = urllib.request.Request(
        f"http://{host}/invocations", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=WAIT) as answer:  # noqa: S310 - as above
        assert json.load(answer) == {"predictions": [3, 1]}


def ask_kserve(host: str) -> None:
    """Ask KServe's server with Triton's client for the Open Inference Protocol, in bytes."""
    rows = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
    with triton.InferenceServerClient(host, connection_timeout=WAIT, network_timeout=WAIT) as client:
        tensor = triton.InferInput("x", list(rows.shape), "FP32")
        tensor.set_data_from_numpy(rows)
        answer = client.infer("sum", [tensor])
        assert answer is not None
        assert answer.as_numpy("y").tolist() == [6, 15]


ENGINES: dict[str, tuple[dict[str, Any], Callable[[str], None]]] = {
    "llama-cpp": (LLAMA, ask_llama),
    "mlflow": (MLFLOW, ask_mlflow),
    "kserve": (KSERVE, ask_kserve),
}


def manifest(name: str, spec: dict[str, Any], image: str) -> dict[str, Any]:
    """Return a ModelServer on the CPU that sleeps after a few idle seconds."""
    common: dict[str, Any] = {
        "image": image,
        "accelerator": {"kind": "cpu"},
        "resources": {"cpu": "200m", "memory": "2Gi"},
        "sleep": {"afterIdle": "5s"},
    }
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": name},
        "spec": common | spec,
    }


def start_tracking_server(kubernetes: Kubernetes, image: str) -> None:
    """Start MLflow's tracking server and register version 1 of the model `words`."""
    store = "--backend-store-uri sqlite:////tmp/tracking.db --artifacts-destination /tmp/artifacts"
    command = f"mlflow server --host 0.0.0.0 --port 5000 --workers 1 --allowed-hosts '*' {store}"
    container = {
        "name": "mlflow",
        "image": image,
        "command": ["sh", "-c", f"exec {command}"],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 5000}, "periodSeconds": 1},
    }
    labels = {"app": TRACKING}
    kubernetes.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": TRACKING, "labels": labels},
            "spec": {"containers": [container]},
        }
    )
    kubernetes.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": TRACKING},
            "spec": {"selector": labels, "ports": [{"port": 5000}]},
        }
    )
    kubectl = kubernetes.target.kubectl
    kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", f"pod/{TRACKING}", "--timeout=300s")
    program = ("python", "/opt/engines/mlflow/register_model.py")
    there = "MLFLOW_TRACKING_URI=http://127.0.0.1:5000"
    kubectl("exec", "-n", NAMESPACE, TRACKING, "--", "env", there, *program)


@pytest.fixture(scope="module")
def engines(installed: Kubernetes) -> Iterator[Kubernetes]:
    """Start all engines at the same time and wait until each has answered the operator and sleeps again."""
    image = catalog.ensure([catalog.ENGINES])[catalog.ENGINES]
    kubectl = installed.target.kubectl
    with ThreadPoolExecutor(1) as pool:
        tracking = pool.submit(start_tracking_server, installed, image)
        for name, (spec, _) in ENGINES.items():
            if spec is not MLFLOW:
                installed.apply(manifest(name, spec, image))
        tracking.result()
    installed.apply(manifest("mlflow", MLFLOW, image))
    kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "modelserver", *ENGINES, f"--timeout={WAIT}s")
    yield installed
    installed.delete("modelserver", *ENGINES)
    installed.delete("pod,service", TRACKING)


def wait_asleep(kubernetes: Kubernetes, name: str) -> None:
    """Wait until the server sleeps and has no pod."""
    eventually(
        lambda: (kubernetes.get("modelserver", name) or {}).get("status", {}).get("phase"),
        lambda phase: phase == "Asleep",
    )
    selector = f"daybreak.dev/owner-kind=ModelServer,daybreak.dev/owner-name={name}"
    eventually(lambda: kubernetes.names("pods", "-l", selector), lambda pods: not pods)


@pytest.mark.parametrize("name", ENGINES)
def test_request_of_public_client_wakes_engine_which_sleeps_again(engines: Kubernetes, name: str) -> None:
    wait_asleep(engines, name)
    service = engines.get("service", name)
    assert service is not None
    ENGINES[name][1](service["spec"]["clusterIP"])
    observed = engines.get("modelserver", name)
    assert observed is not None
    assert observed["status"]["gate"]["models"][0]["wake"]["seconds"] > 0
    wait_asleep(engines, name)
