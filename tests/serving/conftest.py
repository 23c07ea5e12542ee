"""One Ray with all applications of these tests; its packages are those of images/ray-cpu's lock."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.serving import start as serving_start
from cluster import paths
from daybreak.api.llmservice.definition import LLMService
from daybreak.ray.serve.serve_config import model_deployment

APPLICATIONS: dict[str, dict[str, Any]] = {
    "whole": {"importPath": "applications.whole"},
    "batched": {"importPath": "applications.batched", "args": {"batch": {"maxSize": 8, "wait": "100ms"}}},
    "versions": {
        "importPath": "applications.sourced",
        "args": {
            "name": "model",
            "modelControl": True,
            "versions": [
                {"name": "1", "source": "a", "weight": 3},
                {"name": "2", "source": "b", "weight": 1},
                {"name": "3", "source": "broken", "load": False},
            ],
        },
    },
    "many": {
        "importPath": "applications.sourced",
        "args": {
            "multiplex": {
                "maxPerReplica": 2,
                "models": [{"name": f"m{n}", "source": f"s{n}"} for n in range(5)]
                + [{"name": "bad", "source": "broken"}],
            }
        },
    },
    "evicted": {
        "importPath": "applications.evicted",
        "args": {
            "multiplex": {
                "maxPerReplica": 2,
                "models": [{"name": f"m{n}", "source": "any"} for n in range(3)],
            }
        },
    },
    "joins": {"importPath": "applications.joins"},
    "shouter": {"importPath": "applications.shouter", "args": {"name": "shout"}},
    "asks": {
        "importPath": "daybreak_runtime.models.with_llms.build",
        "args": {"importPath": "applications:asks", "args": {"name": "asks"}, "llms": []},
    },
    "documents": {
        "importPath": "documents.app",
        "args": {"uses": {"summary": {"settings": {"sentences": 1}}}},
    },
    # A number of sentences that is none fails each summary.
    "unsummed": {
        "importPath": "documents.app",
        "args": {"uses": {"summary": {"settings": {"sentences": "many"}}}},
    },
    "classifier": {"importPath": "classifier.app", "args": {"batch": {"maxSize": 32, "wait": "5ms"}}},
    "explained": {"importPath": "explained.app"},
    "docs": {"importPath": "sentiment.app", "args": {"settings": {"good": ["great"]}}},
    "tiny": {
        "importPath": "applications.hugging_face",
        "args": {"name": "tiny", "settings": {"task": "text-classification"}, "batch": {"maxSize": 8}},
    },
}
TARGET_REQUESTS = 3
"""Requests in progress for each of the stub replicas that autoscaling aims at."""
STUB = {
    "name": "stub",
    "source": "file:///none",
    "accelerator": {"kind": "cpu"},
    "replicas": {
        "min": 1,
        "max": 2,
        "targetOngoingRequests": TARGET_REQUESTS,
        "upscaleDelay": "0s",
        "downscaleDelay": "1s",
        "lookBackPeriod": "12s",
    },
    "serve": {"healthCheckPeriod": "2s", "gracefulShutdownTimeout": "3s"},
}
DOCS = paths.REPOSITORY / "docs" / "runtime.md"


def block(language: str) -> str:
    """Return the first block of a language in docs/runtime.md."""
    return DOCS.read_text().split(f"```{language}\n")[1].split("```")[0]


def stub_options() -> dict[str, Any]:
    """Return the configuration of the stub's deployment that the operator sends Serve."""
    manifest = {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "chat", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"models": [STUB]},
    }
    service = LLMService.from_manifest(manifest)
    return model_deployment(service.workload, service.spec.models[0])


@pytest.fixture(scope="package")
def replica_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which stub replicas of `engines` write their process ids and ports."""
    return tmp_path_factory.mktemp("replicas")


# Not of the whole session: its processes would take CPU from the tests that follow.
@pytest.fixture(scope="package")
def serving(tmp_path_factory: pytest.TempPathFactory, replica_folder: Path) -> Iterator[str]:
    """HOST:PORT of Serve's proxy; each application is below its name."""
    made = tmp_path_factory.mktemp("made")
    (made / "sentiment.py").write_text(block("python"))
    port = serving_start.free_port()
    translator = {"model": "shout", "gateway": f"http://127.0.0.1:{port}/shouter"}
    applications = APPLICATIONS | {
        "translator": {"importPath": "translator.app", "args": {"settings": translator}},
        "engines": {
            "importPath": "engines.engines",
            "args": {"folder": str(replica_folder), "options": stub_options()},
        },
    }
    with serving_start.serving(applications, port, Path(__file__).parent, made) as address:
        yield address


def post(url: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """Return the status and JSON of a POST; `body` is sent as it is when it is bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    requested = urllib.request.Request(f"http://{url}", data, headers or {})
    try:
        with urllib.request.urlopen(requested, timeout=60) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
